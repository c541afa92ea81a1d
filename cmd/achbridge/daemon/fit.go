package daemon

import (
	"context"
	"time"

	"achbridge/cmd/achbridge/diagnose"
)

// fitEvery is how often a daemon looks whether its links can do what is asked.
const fitEvery = 10 * time.Second

// watchFit says once of every subscription that its link cannot do what it asks.
func (d *Daemon) watchFit(ctx context.Context) error {
	before, at, seen := d.node.StatusNow(), time.Now(), map[string]int{}
	return repeat(ctx, fitEvery, func() {
		after, now := d.node.StatusNow(), time.Now()
		for _, text := range diagnose.Unfit(seen, diagnose.DemandsOf(before, after, now.Sub(at), 0)) {
			d.log.Warn("a link cannot do what is asked of it", "cause", text)
		}
		before, at = after, now
	})
}
