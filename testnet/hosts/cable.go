package hosts

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Cable says where the end of a host's cable is.
type Cable int

// The places of a cable.
const (
	Pulled  Cable = iota // out of the host
	Plugged              // in it
)

// Plug puts the cable of a host in, or pulls it out: unlike "cut" the host
// notices, as its interface loses its carrier, and keeps its addresses. A switch
// that loses its power does that to all hosts at once.
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
