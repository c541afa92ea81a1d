package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"achbridge/discovery"
)

func TestSCTPListensOnTheNextPort(t *testing.T) {
	for _, c := range []struct {
		mode       transportMode
		quic, sctp bool
	}{{transportAuto, true, true}, {transportQUIC, true, false}, {transportSCTP, false, true}} {
		s, err := listenUDP("127.0.0.1:0", c.mode)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{s.quic != nil, s.sctp != nil}; got != [2]bool{c.quic, c.sctp} {
			t.Errorf("%s: got sockets %v, want %v", c.mode, got, [2]bool{c.quic, c.sctp})
		}
		if s.quic != nil && s.quic.LocalAddr().String() != s.at.String() {
			t.Errorf("%s: QUIC on %v, want %v", c.mode, s.quic.LocalAddr(), s.at)
		}
		if s.sctp != nil && s.sctp.LocalAddr().(*net.UDPAddr).Port != s.at.Port+1 {
			t.Errorf("%s: SCTP on %v, want the port after %v", c.mode, s.sctp.LocalAddr(), s.at)
		}
		if _, err := openUDP(s.at, c.mode); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s: the same ports again: got %v, want EADDRINUSE", c.mode, err)
		}
		s.close()
	}
}

func TestNodeSaysOnWhatItListens(t *testing.T) {
	for mode, both := range map[transportMode][2]bool{transportAuto: {true, true}, transportQUIC: {true, false}, transportSCTP: {false, true}} {
		s, err := listenUDP("127.0.0.1:0", mode)
		if err != nil {
			t.Fatal(err)
		}
		s.close()
		var want discovery.Ports
		if both[0] {
			want.QUIC = uint16(s.at.Port)
		}
		if both[1] {
			want.SCTP = uint16(s.at.Port) + 1
		}
		if got := s.ports(); got != want {
			t.Errorf("%s: got %+v, want %+v", mode, got, want)
		}
	}
}

func TestPortThatIsTakenIsNamed(t *testing.T) {
	other, err := listenUDP("127.0.0.1:0", transportSCTP)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	_, err = listenUDP(other.at.String(), transportAuto)
	if want := fmt.Sprintf("UDP port %d is in use", other.at.Port+1); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("where another has the port for SCTP: got %v, want %q", err, want)
	}
	if s, err := listenUDP(other.at.String(), transportQUIC); err != nil {
		t.Errorf("without SCTP: got %v", err)
	} else {
		s.close()
	}
	for _, mode := range []transportMode{transportAuto, transportSCTP} {
		if _, err := listenUDP("127.0.0.1:65535", mode); err == nil || !strings.Contains(err.Error(), "no port is left for SCTP") {
			t.Errorf("%s on the last port: got %v, want that SCTP has none", mode, err)
		}
	}
}
