package daemon

import (
	"errors"
	"fmt"
	"math"
	"net"
	"syscall"

	"achbridge/bridge/transport"
	"achbridge/bridge/via"
	"achbridge/cmd/achbridge/service"
	"achbridge/cmd/achbridge/ui"
	"achbridge/discovery"
)

// Sockets holds the UDP sockets of all links: QUIC on a port, SCTP on the next one.
type Sockets struct {
	quic, sctp net.PacketConn // nil if the transport is off
	At         *net.UDPAddr   // address of QUIC, even if QUIC is off; exported for tests
}

// anyPortTries limits the attempts to find two free consecutive ports.
const anyPortTries = 32

// ListenUDP opens the sockets that mode needs. With port 0 it takes any free ports.
func ListenUDP(address string, mode via.Kind) (s Sockets, err error) {
	at, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return Sockets{}, ui.Failure(fmt.Errorf("listen %s: %w", address, err), "--listen :PORT")
	}
	if at.Port == math.MaxUint16 && mode != via.QUIC {
		return Sockets{}, ui.Failure(fmt.Errorf("listen %s: no port is left for SCTP, which takes the next one", address),
			"--listen with a lower port, or --transport=quic")
	}
	for range anyPortTries {
		if s, err = openUDP(at, mode); err == nil || at.Port != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return Sockets{}, ui.Failure(fmt.Errorf("listen %s: UDP port %s is in use, perhaps by another daemon", address, portOf(err)),
			"stop that one, or take another port: --listen :PORT (:0 takes any; SCTP takes the next, unless --transport=quic)")
	case err != nil:
		return Sockets{}, ui.Failure(fmt.Errorf("listen %s: %s", address, service.CannotListen(err)), "--listen :PORT")
	}
	return s, nil
}

// portOf returns the port that could not be opened, or "?" if err does not contain it.
func portOf(err error) string {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok {
		return "?"
	}
	_, port, _ := net.SplitHostPort(op.Addr.String())
	return port
}

func openUDP(at *net.UDPAddr, mode via.Kind) (s Sockets, err error) {
	own := *at
	s.At = &own
	if mode != via.SCTP || own.Port == 0 {
		if s.quic, err = net.ListenPacket("udp", own.String()); err != nil {
			return Sockets{}, err
		}
		own = *s.quic.LocalAddr().(*net.UDPAddr)
	}
	if mode != via.QUIC {
		if s.sctp, err = net.ListenPacket("udp", nextPort(&own).String()); err != nil {
			s.Close()
			return Sockets{}, err
		}
	}
	if mode == via.SCTP && s.quic != nil { // the QUIC socket only chose the port
		s.quic.Close()
		s.quic = nil
	}
	return s, nil
}

// nextPort returns the address of SCTP for a QUIC address.
func nextPort(addr *net.UDPAddr) *net.UDPAddr {
	next := *addr
	next.Port++
	return &next
}

// ports returns the ports of the open sockets, 0 for a transport that is off.
func (s Sockets) ports() (p discovery.Ports) {
	if s.quic != nil {
		p.QUIC = uint16(s.quic.LocalAddr().(*net.UDPAddr).Port)
	}
	if s.sctp != nil {
		p.SCTP = uint16(s.sctp.LocalAddr().(*net.UDPAddr).Port)
	}
	return p
}

// bothOf returns the addresses at which a node may listen if only addr is known of it.
func bothOf(addr *net.UDPAddr) transport.Addrs {
	if addr.Port == math.MaxUint16 {
		return transport.Addrs{QUIC: addr}
	}
	return transport.Addrs{QUIC: addr, SCTP: nextPort(addr)}
}

// Listen starts an endpoint on the sockets. The endpoint then owns the sockets.
func (s Sockets) Listen(cfg transport.Config) (*transport.Endpoint, error) {
	cfg.SCTP = s.sctp
	return transport.Listen(s.quic, cfg)
}

func (s Sockets) Close() {
	for _, conn := range []net.PacketConn{s.quic, s.sctp} {
		if conn != nil {
			conn.Close()
		}
	}
}

// TryPorts opens the ports of a daemon, closes them again and returns their address. Its error
// includes the fix.
func TryPorts(listen string, mode via.Kind) (at string, err error) {
	s, err := ListenUDP(listen, mode)
	if err != nil {
		return "", err
	}
	defer s.Close()
	return s.At.String(), nil
}
