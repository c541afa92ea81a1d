package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// In the configuration file, paths count from its directory.
func TestPathsCountFromConfigurationFile(t *testing.T) {
	for _, c := range []struct {
		what           string
		beside, cwd    string // content of the file stop there; empty means no file
		frame, warning string
		problem        string
	}{
		{"beside the configuration", "stop", "", "stop", "", ""},
		{"only in the working directory", "", "halt", "halt", "conf.yaml:2:59: accept[0].on_stale: stop is read from the working directory; move it to ", ""},
		{"the same in both", "stop", "stop", "stop", "", ""},
		{"others in both", "stop", "halt", "", "", "and the file of that name in the working directory differ; write the whole path"},
		{"nowhere", "", "", "", "", "/stop; write it first"},
	} {
		conf, cwd := t.TempDir(), t.TempDir()
		t.Chdir(cwd)
		for dir, text := range map[string]string{conf: c.beside, cwd: c.cwd} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, "stop"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(conf, "conf.yaml")
		text := "accept:\n  - {match: goal, class: command, deadline: 1s, on_stale: 'put:stop'}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Source{Path: path, Env: func(string) string { return "" }}.Load()
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%s: got %v, want the error %q", c.what, err, c.problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		warnings := strings.Join(got.Warnings(), "\n")
		if frame := got.AcceptGrants[0].QoS.OnStale.Frame; frame != c.frame || (warnings == "") != (c.warning == "") || !strings.Contains(warnings, c.warning) {
			t.Errorf("%s: got frame %q and warnings %q, want %q, %q", c.what, frame, warnings, c.frame, c.warning)
		}
	}
}

func TestProbablyWrongSettingsAreWarnedOf(t *testing.T) {
	c, err := loaded(t, "\ufeffmirror:\n  - 192.168.1.5/imu # an “address”\n  - robot/\u00a0imu\nexport: [“imu”]\npush: ['goal fe80::1']\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(c.Warnings(), "\n")
	for _, want := range []string{
		"mirror[0]: 192.168.1.5 is an address, and rules match names", "push[0]: fe80::1 is an address",
		":3:11: a no-break space is a part of the text", ":4:10: a curly quote is a part of the text",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got warnings\n%s\nwant %q", got, want)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 4 {
		t.Errorf("got %d warnings, want 4:\n%s", n, got)
	}
}
