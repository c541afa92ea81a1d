package testnet_test

import (
	"errors"
	"fmt"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
	"achbridge/testnet/await"
)

// mirrors returns a host's mirrors of the robot, by channel.
func (w *soak) mirrors(host string) map[string]status.Mirror {
	w.t.Helper()
	mirrors := map[string]status.Mirror{}
	for _, m := range w.status(host).Mirrors {
		mirrors[m.Channel] = m
	}
	return mirrors
}

// lastFrames returns the numbers of the newest frames of the robot's channels.
func (w *soak) lastFrames() map[string]uint64 {
	w.t.Helper()
	last := map[string]uint64{}
	for _, name := range soakNames() {
		last[name] = w.putCount("robot", name)
	}
	return last
}

// checkUndisturbed stops a publisher and checks that its puts took no longer than
// those of other, whose channels the bridge does not use.
func (p *process) checkUndisturbed(other *process) {
	p.t.Helper()
	worst, failed := p.worstPut()
	alone, _ := other.worstPut()
	p.t.Logf("worst put: %v; into a channel that is not mirrored: %v", worst, alone)
	if failed != 0 {
		p.t.Errorf("failed puts: got %d, want 0", failed)
	}
	// If a lock is not released, a put fails after lockLimit. If a waiter was killed, the
	// broadcast of a put does not end. On a busy machine a thread may also lose its CPU
	// within a put; the longest put of the other publisher shows for how long.
	checkPromise(p.t, "a put", worst, max(lockLimit, 4*alone))
}

// worstPut stops a publisher and returns the longest of its puts and how many failed, over
// all of its channels.
func (p *process) worstPut() (worst time.Duration, failed int) {
	p.t.Helper()
	p.terminate()
	for _, stats := range p.putStats() {
		worst, failed = max(worst, stats.worst), failed+stats.failed
	}
	return worst, failed
}

// waitForLastFrame waits until all mirrors have the last frame of their channel, and a
// reader finds it there.
func (w *soak) waitForLastFrame() {
	w.t.Helper()
	want := w.lastFrames()
	for _, host := range []string{"pc", "operator"} {
		var views []string
		for _, name := range soakNames() {
			views = append(views, "reopen:robot."+name)
		}
		readers := w.observe(host, views...)
		for _, name := range soakNames() {
			readers.waitForFrame("reopen:robot."+name, fmt.Sprintf("frame %d", want[name]),
				func(s observedFrame) bool { return s.Err == "" && s.Stamp == want[name] })
		}
	}
}

// waitForCounters waits until no frame is in flight, and both ends of each subscription
// have the same counters.
func (w *soak) waitForCounters() {
	w.t.Helper()
	await.NoError(w.t, func() error {
		exports := map[string]status.Subscription{}
		for _, e := range w.status("robot").Exports {
			exports[e.Peer+" "+e.Channel] = e
		}
		var errs []error
		for _, host := range []string{"pc", "operator"} {
			for channel, m := range w.mirrors(host) {
				e := exports[host+" "+channel]
				if !isClosed(m.FrameCounters) || !isClosed(e.FrameCounters) || e.Offered != m.Offered {
					errs = append(errs, fmt.Errorf("%s to %s: got %+v at its origin, %+v at the mirror, want both closed", channel, host, e.FrameCounters, m.FrameCounters))
				}
			}
		}
		return errors.Join(errs...)
	})
	sum := w.mirrors("pc")
	for _, channel := range []string{small(0), "scan", "camera"} {
		w.t.Logf("ledger of %s on the PC: %+v", channel, sum[channel].FrameCounters)
	}
}

// isClosed reports whether the counters include the outcome of all frames.
func isClosed(a ledger.FrameCounters) bool {
	return a.Offered > 0 && a.InFlight == 0 && decidedFrames(a) == a.Offered
}
