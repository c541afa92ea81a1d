package daemon

import (
	"context"
	"time"

	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/service"
)

// fitEvery is the interval at which a daemon checks whether its links can carry their subscriptions.
const fitEvery = 10 * time.Second

// watchFit logs once for every subscription that its link cannot carry.
func (d *Daemon) watchFit(ctx context.Context) error {
	before, at, seen := d.node.StatusNow(), time.Now(), map[string]int{}
	return service.Repeat(ctx, fitEvery, func() {
		after, now := d.node.StatusNow(), time.Now()
		for _, text := range diagnose.Unfit(seen, diagnose.DemandsOf(before, after, now.Sub(at), 0)) {
			d.log.Warn("link cannot carry its subscriptions", "cause", text)
		}
		before, at = after, now
	})
}
