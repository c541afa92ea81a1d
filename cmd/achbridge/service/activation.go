package service

import (
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/coreos/go-systemd/v22/activation"
)

// passed returns the sockets that systemd passed to this process (sd_listen_fds(3)). They stay open until the process ends, since a
// daemon that changes its host name listens on them again.
var passed = sync.OnceValue(func() []*os.File { return activation.Files(true) })

// Passed returns a listener on the socket that systemd passed with this name, which the socket unit sets. It returns nil if systemd
// passed none. Such a socket remains open while the service restarts, so that no client is refused. The caller closes the listener.
func Passed(name string) (net.Listener, error) {
	for _, f := range passed() {
		if f.Name() != name {
			continue
		}
		ln, err := net.FileListener(f)
		if err != nil {
			return nil, fmt.Errorf("socket %s that systemd passed: %w", name, err)
		}
		return ln, nil
	}
	return nil, nil
}
