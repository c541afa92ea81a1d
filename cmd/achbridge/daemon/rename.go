package daemon

import (
	"context"
	"errors"
	"os"
	"time"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/service"
)

// ErrNamed is the error of Run when the system got its name after the daemon began. The caller starts a new daemon.
var ErrNamed = errors.New("this host has got its name")

// unnamed is the name of a system that has none yet: at boot the daemon may begin before DHCP or cloud-init has set it.
const unnamed = "localhost"

// nameEvery is the time between two looks at the system's name.
const nameEvery = time.Second

// watchName watches the system's name, for a host whose configuration sets no other name. A host that had no name takes the new one at
// once (ErrNamed), unless it has links, which that would cut. For any other change the log says once that a restart is needed: mirrors
// on other hosts are named after the old name.
func (d *Daemon) watchName(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	warnedOf := d.self.Host
	err := service.Repeat(ctx, nameEvery, func() {
		system, err := os.Hostname()
		name := config.HostName(system)
		if err != nil || name == d.self.Host {
			return
		}
		if d.self.Host == unnamed && len(d.node.StatusNow().Links) == 0 {
			d.log.Info("this host has got its name, starting again; mirrors and pushes that were asked for by command are forgotten", "host", name)
			cancel(ErrNamed)
		} else if name != warnedOf {
			warnedOf = name
			d.log.Warn("the system has another name, which this host takes when the daemon is started again", "host", d.self.Host, "system", name)
		}
	})
	if errors.Is(context.Cause(ctx), ErrNamed) {
		return ErrNamed
	}
	return err
}
