package daemon

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime/debug"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"achbridge/bridge"
	"achbridge/cmd/achbridge/service"
	"achbridge/cmd/achbridge/ui"
)

// BoundMemory has garbage collected more eagerly before the daemon grows large, unless
// GOMEMLIMIT says from where on.
func BoundMemory() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(bridge.MemoryGoal)
	}
}

// leaveTime is how long the daemon takes at most to say goodbye.
const leaveTime = 1800 * time.Millisecond

// Serve runs d until ctx ends, tells the service manager about it, and
// returns in time even when something hangs. At every hangup the configuration
// is read again.
func Serve(ctx context.Context, d *Daemon, hangups <-chan os.Signal) error {
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	manager := service.Manager{Log: d.log}
	manager.Tell(daemon.SdNotifyReady)
	for ctx.Err() == nil {
		select {
		case err := <-done:
			return err
		case <-hangups:
			_, _ = d.reload() // the log tells
		case <-ctx.Done():
		}
	}
	manager.Tell(daemon.SdNotifyStopping)
	select {
	case err := <-done:
		return err
	case <-time.After(leaveTime):
		return ui.Failure(errors.New("leaving took too long: left without a goodbye to everybody"), "")
	}
}
