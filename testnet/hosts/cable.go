package hosts

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Cable is the state of a host's cable.
type Cable int

// States of a cable.
const (
	Pulled  Cable = iota // not connected to the host
	Plugged              // connected to the host
)

// Plug plugs the cable of a host in or pulls it out. Unlike with "cut", the host
// notices, since its interface loses its carrier. It keeps its addresses. A switch
// that loses its power has this effect on all hosts at once.
func (l *Lab) Plug(host string, cable Cable) error {
	i, err := l.find(host)
	if err != nil {
		return err
	}
	conn, err := l.net.taps[i].SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = unix.IoctlSetPointerInt(int(fd), unix.TUNSETCARRIER, int(cable)) })
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("host %s: set carrier: %w", host, err)
	}
	return nil
}
