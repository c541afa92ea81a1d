package daemon

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"achbridge/bridge/via"
	"achbridge/discovery"
)

func TestSCTPListensOnTheNextPort(t *testing.T) {
	for _, c := range []struct {
		mode       via.Kind
		quic, sctp bool
	}{{via.Any, true, true}, {via.QUIC, true, false}, {via.SCTP, false, true}} {
		s, err := ListenUDP("127.0.0.1:0", c.mode)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{s.quic != nil, s.sctp != nil}; got != [2]bool{c.quic, c.sctp} {
			t.Errorf("%s: got sockets %v, want %v", c.mode, got, [2]bool{c.quic, c.sctp})
		}
		if s.quic != nil && s.quic.LocalAddr().String() != s.At.String() {
			t.Errorf("%s: QUIC on %v, want %v", c.mode, s.quic.LocalAddr(), s.At)
		}
		if s.sctp != nil && s.sctp.LocalAddr().(*net.UDPAddr).Port != s.At.Port+1 {
			t.Errorf("%s: SCTP on %v, want the port after %v", c.mode, s.sctp.LocalAddr(), s.At)
		}
		if _, err := openUDP(s.At, c.mode); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s: the same ports again: got %v, want EADDRINUSE", c.mode, err)
		}
		s.Close()
	}
}

func TestDaemonLogsListenAddresses(t *testing.T) {
	for mode, both := range map[via.Kind][2]bool{via.Any: {true, true}, via.QUIC: {true, false}, via.SCTP: {false, true}} {
		s, err := ListenUDP("127.0.0.1:0", mode)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		var want discovery.Ports
		if both[0] {
			want.QUIC = uint16(s.At.Port)
		}
		if both[1] {
			want.SCTP = uint16(s.At.Port) + 1
		}
		if got := s.ports(); got != want {
			t.Errorf("%s: got %+v, want %+v", mode, got, want)
		}
	}
}

func TestListenErrorNamesThePort(t *testing.T) {
	other, err := ListenUDP("127.0.0.1:0", via.SCTP)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, err = ListenUDP(other.At.String(), via.Any)
	if want := fmt.Sprintf("UDP port %d is in use", other.At.Port+1); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("port for SCTP in use: got %v, want %q", err, want)
	}
	if s, err := ListenUDP(other.At.String(), via.QUIC); err != nil {
		t.Errorf("without SCTP: got %v, want no error", err)
	} else {
		s.Close()
	}
	for _, mode := range []via.Kind{via.Any, via.SCTP} {
		if _, err := ListenUDP("127.0.0.1:65535", mode); err == nil || !strings.Contains(err.Error(), "no port is left for SCTP") {
			t.Errorf("%s on the last port: got %v, want an error about the port for SCTP", mode, err)
		}
	}
}
