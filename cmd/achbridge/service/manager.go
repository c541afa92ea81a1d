package service

import (
	"context"
	"log/slog"
	"os"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Manager is the service manager that started us, if one did: systemd, by the
// protocol of sd_notify(3).
type Manager struct{ Log *slog.Logger }

func (m Manager) Tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.Log.Warn("service manager not told", "state", state, "err", err, "socket", os.Getenv("NOTIFY_SOCKET"))
	}
}

// Watch says that the daemon is well as often as the manager wants to hear it
// (WatchdogSec=), each time after alive has returned: a daemon in which something
// hangs stays silent and is started anew. It returns when ctx ends.
func (m Manager) Watch(ctx context.Context, alive func()) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		m.Log.Warn("service manager's watchdog not understood", "err", err)
	}
	if limit == 0 {
		return
	}
	look := func() {
		alive()
		m.Tell(daemon.SdNotifyWatchdog)
	}
	look()
	_ = Repeat(ctx, limit/3, look) // its end is that of ctx
}
