package main

import (
	"errors"
	"net"
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
