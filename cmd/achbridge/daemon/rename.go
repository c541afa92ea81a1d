package daemon

import (
	"context"
	"errors"
	"os"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/service"
)

// ErrNamed is returned by Run if the system got its name after the daemon started. The caller must start a new daemon.
var ErrNamed = errors.New("this host received its name")

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
			d.log.Info("host name is set, restarting without the mirrors and pushes requested by commands", "host", name)
			cancel(ErrNamed)
		} else if name != warnedOf {
			warnedOf = name
			d.log.Warn("system name differs, restart the daemon to use it", "host", d.self.Host, "system", name)
		}
	})
	if errors.Is(context.Cause(ctx), ErrNamed) {
		return ErrNamed
	}
	return err
}
