package config

import (
	"strings"
	"testing"

	"achbridge/bridge/via"
)

func TestParsePeerWithTransport(t *testing.T) {
	for _, c := range []struct {
		text       string
		own        via.Kind
		peer, over string
	}{
		{"krang", via.QUIC, "krang", ""},
		{"krang:9000,transport=sctp", via.Any, "krang:9000", "sctp"},
		{"krang,transport=sctp", via.SCTP, "krang", "sctp"},
		{"[fe80::1%eth0]:1,transport=quic", via.Any, "[fe80::1%eth0]:1", "quic"},
		{"krang,transport=auto", via.QUIC, "krang", ""},
	} {
		got, err := listedPeer(c.text, c.own)
		if err != nil || got.String() != c.peer || got.Transport != c.over {
			t.Errorf("%s: got %s over %q, %v, want %s over %q", c.text, got, got.Transport, err, c.peer, c.over)
		}
	}
}

func TestInvalidPeerErrorSuggestsFix(t *testing.T) {
	for _, c := range []struct {
		text string
		own  via.Kind
		want string
	}{
		{",transport=sctp", via.Any, "no host"},
		{"krang,transport=tcp", via.Any, `transport "tcp": want auto, quic or sctp`},
		{"krang,transport", via.Any, `want no option but transport=auto, quic or sctp`},
		{"krang,", via.Any, `want no option but transport=auto, quic or sctp`},
		{"krang,sctp", via.Any, `want no option but transport=auto, quic or sctp`},
		{"krang,transport=sctp", via.QUIC, "uses quic only: give it --transport=auto, or leave transport=sctp out"},
		{"krang,transport=quic", via.SCTP, "uses sctp only"},
	} {
		_, err := listedPeer(c.text, c.own)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), `"`+strings.TrimSuffix(c.text, ",transport=sctp")) {
			t.Errorf("%s with %s: got %v, want the entry and %q", c.text, c.own, err, c.want)
		}
	}
}

func TestPeerWithTwoTransportsIsRefused(t *testing.T) {
	_, err := loaded(t, "transport: auto\npeers: ['krang,transport=sctp', atlas, krang]\n", nil)
	if err == nil || !strings.Contains(err.Error(), `peers[2] "krang": peers[0] lists the same peer with another transport`) {
		t.Errorf("got %v, want the lines of both entries", err)
	}
	if _, err := loaded(t, "transport: auto\npeers: [krang, krang]\n", nil); err != nil {
		t.Errorf("the same twice: got %v, want no error", err)
	}
}
