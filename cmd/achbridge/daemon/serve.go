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

// BoundMemory sets the memory limit of the garbage collector to bridge.MemoryGoal, unless
// GOMEMLIMIT sets another.
func BoundMemory() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(bridge.MemoryGoal)
	}
}

// leaveTime limits the time for the goodbyes to peers.
const leaveTime = 1800 * time.Millisecond

// Serve runs d until ctx ends and notifies the service manager. It returns within
// leaveTime after the end of ctx, even if a part of the daemon hangs. At every
// hangup Serve reloads the configuration.
func Serve(ctx context.Context, d *Daemon, hangups <-chan os.Signal) error {
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	manager := service.Manager{Log: d.log}
	manager.Notify(daemon.SdNotifyReady)
	for ctx.Err() == nil {
		select {
		case err := <-done:
			return err
		case <-hangups:
			_, _ = d.reload() // reload logs its error
		case <-ctx.Done():
		}
	}
	manager.Notify(daemon.SdNotifyStopping)
	select {
	case err := <-done:
		return err
	case <-time.After(leaveTime):
		return ui.Failure(errors.New("leaving took too long: some peers got no goodbye"), "")
	}
}
