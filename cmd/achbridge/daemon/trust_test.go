package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"achbridge/bridge"
	"achbridge/bridge/status"
	"achbridge/bridge/trust"
	"achbridge/discovery"
)

func TestCertificateExpiryIsLoggedDaily(t *testing.T) {
	now := time.Now()
	authority, err := trust.NewAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	key, err := authority.Issue("krang", now)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	node, err := bridge.New(bridge.Config{Host: "krang", Log: slog.New(slog.NewTextHandler(&log, nil))}) // the node never runs
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{node: node, trust: &keyState{key: key}, self: discovery.Peer{Host: "krang"}}
	for _, c := range []struct {
		before time.Duration // before the expiry
		want   string
	}{
		{31 * 24 * time.Hour, ""},
		{30*24*time.Hour - time.Minute, "ends soon"},
		{30*24*time.Hour - time.Hour, ""},
		{29*24*time.Hour - time.Minute, "ends soon"},
		{-time.Second, "has ended"},
	} {
		log.Reset()
		d.warnOfEnd(key.Ends().Add(-c.before))
		if got := log.String(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%v before expiry: got %q, want %q", c.before, got, c.want)
		}
	}
	events, err := node.Events(t.Context(), 0)
	if err != nil || len(events.Events) != 3 {
		t.Fatalf("got %+v, %v, want an event for each line", events, err)
	}
	for _, e := range events.Events {
		if e.Kind != status.EventCertificateEnds {
			t.Errorf("got %+v, want %s", e, status.EventCertificateEnds)
		}
	}
	d.trust.hold(trust.NewKey())
	log.Reset()
	d.warnOfEnd(now.AddDate(100, 0, 0))
	if log.Len() != 0 {
		t.Errorf("a shared key: got %q, want nothing", log.String())
	}
}
