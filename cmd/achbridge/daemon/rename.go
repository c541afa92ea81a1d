package daemon

import (
	"context"
	"errors"
	"os"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/service"
)

// ErrNamed is returned by Run if the system got its name after the daemon started. The caller must start a new daemon.
var ErrNamed = errors.New("this host has got its name")

// unnamed is the default name of a system. At boot the daemon may start before DHCP or cloud-init has set the real name.
const unnamed = "localhost"

// watchName follows changes of the system's name, for a host whose configuration sets no name. It returns ErrNamed if the host had no
// name and has no links, which a restart would cut. It logs any other change once: the new name needs a restart, since mirrors on
// other hosts are named after the old name.
func (d *Daemon) watchName(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	warnedOf := d.self.Host
	err := service.Repeat(ctx, checkEvery, func() {
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
