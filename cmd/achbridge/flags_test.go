package main

import (
	"testing"

	"github.com/spf13/cobra"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/config"
)

func TestMirrorFlagsSetOptions(t *testing.T) {
	for _, c := range []struct {
		flags []string
		want  string // options that differ from the defaults
	}{
		{nil, ""},
		{[]string{"--budget", "20ms", "--max-rate", "0.5", "--priority", "0"}, "budget 20ms, max_rate 0.5, priority 0"},
		{[]string{"--compress=zstd", "--late=drop", "--mode=every"}, "mode every, compress zstd, late drop"},
		{[]string{"--budget=100ms", "--priority=4", "--mode=newest", "--compress=auto", "--late=newest", "--class=state"}, ""},
	} {
		cmd := &cobra.Command{}
		addQoSFlags(cmd, rule.Options())
		if err := cmd.ParseFlags(c.flags); err != nil {
			t.Fatal(err)
		}
		m, err := mirrorRequest("krang/imu", "", cmd.Flags())
		if err != nil {
			t.Fatal(err)
		}
		if got := rule.Differences(rule.QoS{}, m.QoS); got != c.want || m.Host != "krang" || m.Channel != "imu" {
			t.Errorf("%q: got %q of %s/%s, want %q of krang/imu", c.flags, got, m.Host, m.Channel, c.want)
		}
	}
}

func TestCompletedOptionValuesAreValid(t *testing.T) {
	for _, o := range rule.Options() {
		for _, word := range o.Words {
			var q rule.QoS
			if err := q.Set(o.Key, word, config.ReadFile); err != nil || o.Text(q) != word {
				t.Errorf("%s=%s: got %q, %v, want the same value", o.Key, word, o.Text(q), err)
			}
		}
	}
}
