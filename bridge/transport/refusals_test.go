package transport

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/trust"
)

func TestRefusalsAreLoggedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logs{}
		r := newRefusals(slog.New(slog.NewTextHandler(log, nil)), func() string { return "01234567" })
		addr := func(host, port int) net.Addr { return &net.UDPAddr{IP: net.IPv4(10, 0, 0, byte(host)), Port: port} }
		for port := range 5 { // one host, whatever its port
			r.Report(addr(1, port), trust.Claim{}, trust.ErrWrongKey)
		}
		for host := range 100 { // no more than maxVoices hosts are logged
			r.Report(addr(100+host, 1), trust.Claim{}, trust.ErrWrongKey)
		}
		if got := len(log.lines("")); got != maxVoices {
			t.Errorf("lines: got %d, want %d", got, maxVoices)
		}
		time.Sleep(refusalPeriod)
		r.Report(addr(1, 1), trust.Claim{Host: "spy", Network: "89abcdef"}, trust.ErrWrongKey)
		r.Report(addr(2, 1), trust.Claim{}, errors.New("peer showed no certificate"))
		lines := log.lines("")[maxVoices:]
		for i, want := range []string{
			`level=WARN msg="peer has another network key" peer=10.0.0.1:1 host=spy network=01234567 peer_network=89abcdef count=69`,
			`level=INFO msg="unknown peer refused" peer=10.0.0.2:1 network=01234567 err="peer showed no certificate"`,
		} {
			if i >= len(lines) || !strings.Contains(lines[i], want) {
				t.Errorf("lines: got %q, want %q", lines, want)
			}
		}
		if len(r.last) > maxVoices {
			t.Errorf("memory: %d addresses, want at most %d", len(r.last), maxVoices)
		}
	})
}
