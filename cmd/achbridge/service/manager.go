package service

import (
	"context"
	"log/slog"
	"os"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Manager is the service manager that started this process, if there is one: systemd, with the protocol of sd_notify(3).
type Manager struct{ Log *slog.Logger }

func (m Manager) Notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.Log.Warn("cannot notify service manager", "state", state, "err", err, "socket", os.Getenv("NOTIFY_SOCKET"))
	}
}

// Watch reports to the manager that the daemon works, three times in each period of WatchdogSec=. Before each report
// it calls alive. If alive hangs, no report is sent, and the manager restarts the daemon. Watch returns when ctx ends,
// or at once if the manager has no watchdog.
func (m Manager) Watch(ctx context.Context, alive func()) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		m.Log.Warn("cannot parse watchdog interval of service manager", "err", err)
	}
	if limit == 0 {
		return
	}
	check := func() {
		alive()
		m.Notify(daemon.SdNotifyWatchdog)
	}
	check()
	_ = Repeat(ctx, limit/3, check) // ends only when ctx ends
}
