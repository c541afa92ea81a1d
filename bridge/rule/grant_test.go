package rule

import (
	"errors"
	"testing"
)

func TestDenialsPrecedeFirstMatchingRule(t *testing.T) {
	rules := Grants{
		{Channels: []string{"camera*"}, Hosts: []string{"pc", "viz-*"}},
		{Channels: []string{"*"}},
		{Channels: []string{"secret*"}, Deny: true},
		{Channels: []string{"imu"}, Hosts: []string{"guest"}, Deny: true},
	}
	for _, c := range []struct {
		channel, host string
		want          bool
	}{
		{"camera1", "pc", true},
		{"camera1", "viz-2", true},
		{"camera1", "planner", false}, // although a later rule matches all channels
		{"imu", "planner", true},
		{"imu", "guest", false},
		{"secret.key", "pc", false},
	} {
		if _, err := rules.For(c.channel, c.host); (err == nil) != c.want {
			t.Errorf("%s for %s: got %v, want allowed %v", c.channel, c.host, err, c.want)
		}
	}
	if rules.AnyPeer("secret.key") || !rules.AnyPeer("imu") {
		t.Error("want secret.key offered to no host, imu to some host")
	}
	if _, err := GrantTo("imu").For("joints", "pc"); !errors.Is(err, ErrNoGrant) {
		t.Errorf("got %v, want %v", err, ErrNoGrant)
	}
}

func TestExportRuleLimitsQoSOfPeer(t *testing.T) {
	found := Grant{QoS: QoS{MaxRate: 5000, Priority: 3}} // 5 Hz, priority 2
	for _, c := range []struct{ requested, want QoS }{
		{QoS{}, QoS{MaxRate: 5000, Priority: 3}},
		{QoS{MaxRate: 1000, Priority: 1}, QoS{MaxRate: 1000, Priority: 1}},
		{QoS{MaxRate: 9000, Priority: 8}, QoS{MaxRate: 5000, Priority: 3}},
	} {
		if got, err := found.Limit(c.requested); err != nil || got != c.want {
			t.Errorf("%+v: got %+v, %v, want %+v", c.requested, got, err, c.want)
		}
	}
	if _, err := found.Limit(QoS{Mode: Every}); err == nil {
		t.Error("mode every is granted, want it refused: it sends all frames")
	}
}

func TestUnusableFileModesAreRefused(t *testing.T) {
	for text, want := range map[string]FileMode{"0660": 0o660, "666": 0o666, "0600": 0o600, "0o606": 0o606} {
		if got, err := ParseFileMode(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0640", "0444", "0770", "0060", "rw", "07777", "-1"} {
		if got, err := ParseFileMode(text); err == nil {
			t.Errorf("%q: got %v, want it refused", text, got)
		}
	}
}
