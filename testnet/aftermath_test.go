package testnet_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// faultTest injects a fault into a set of hosts and checks that, whatever the fault
// is, all mirrors follow within resumeLimit after it, all late frames that were put
// are counted as late_kept, the counters of both ends add up and agree with shared
// memory, no writer was delayed, and nothing leaks.
//
//	o := s.startFaultTest(faultTest{publishers: …, daemons: …, readers: …})
//	s.link("robot", "cut")
//	time.Sleep(time.Second)
//	s.link("robot", "up")
//	o.finish("cut for 1 s", now())
//
// For several faults, call checkRecovery after each of them except the last.
type faultTest struct {
	*site
	publishers []*process          // the robot's writers
	daemons    map[string]*process // daemons by host; a fault that replaces a daemon stores the new one here
	readers    []*observation
	restarted  bool          // a daemon was replaced and has lost its counters
	replaced   bool          // a mirror's file was replaced, which resets the number of frames in it
	backlog    time.Duration // extra time for frames of mode=every that were put during the fault

	began          moment
	before         map[string]footprint
	lateKeptBefore uint64 // late_kept of all mirrors before the fault
}

// startFaultTest waits until all readers follow, and measures the hosts before the fault.
func (s *site) startFaultTest(o faultTest) *faultTest {
	s.t.Helper()
	o.site, o.before = s, map[string]footprint{}
	for _, r := range o.readers {
		r.waitUntilFollowing(now(), meetLimit, r.views...)
	}
	for host := range o.daemons {
		o.before[host] = o.peakFootprint(host)
		o.lateKeptBefore += lateKept(s.status(host))
	}
	o.began = now()
	return &o
}

// checkRecovery checks that every view follows within resumeLimit after the fault was
// over, and that no frame was older than the fault explains. It logs both figures.
// The next fault begins now.
func (o *faultTest) checkRecovery(fault string, over moment) {
	o.t.Helper()
	var took, worst time.Duration
	for _, r := range o.readers {
		took = max(took, r.waitUntilFollowing(over, resumeLimit+o.backlog, r.views...))
		worst = max(worst, r.worstAge(o.began))
	}
	long := time.Duration(over - o.began)
	checkPromise(o.t, fault+": the oldest frame in a mirror", worst, long+resumeLimit+o.backlog+machineDelay)
	o.t.Logf("fault %-48s lasted %7v  followed after %6v  worst age %7v", fault, long.Round(time.Millisecond), took, worst.Round(time.Millisecond))
	o.began = now()
}

// finish checks the recovery from the last fault, leaks, writers, counters and late
// frames. It stops the publishers, whose channels stay.
func (o *faultTest) finish(fault string, over moment) {
	o.t.Helper()
	o.checkRecovery(fault, over)
	o.checkLeaks()
	o.checkWriters()
	o.checkCounters()
	o.checkLateFrames()
}

// checkLeaks waits until every daemon has its footprint from before the fault.
// Sessions from the fault may exist for a while.
func (o *faultTest) checkLeaks() {
	o.t.Helper()
	begin, first := now(), error(nil)
	for host, before := range o.before {
		await.NoError(o.t, func() error {
			err := o.footprint(host).within(before)
			first = cmp.Or(first, err)
			return err
		})
	}
	if first != nil {
		o.t.Logf("as before after %v; until then: %v", time.Duration(now()-begin).Round(time.Millisecond), first)
	}
}

// lockLimit is the time after which a put fails if it cannot get the lock.
const lockLimit = 100 * time.Millisecond

// checkWriters stops the publishers and checks the duration of their puts. If a
// process held the lock, a put would fail after 100 ms, as it may on a busy machine.
// If a process was killed while it waited on the condition variable, a put would
// never return.
func (o *faultTest) checkWriters() {
	o.t.Helper()
	for _, p := range o.publishers {
		p.signal(syscall.SIGUSR1)
		for _, r := range p.putStats() {
			o.t.Logf("channel %s: %d puts, %d failed, worst %v", r.channel, r.count, r.failed, r.worst)
			checkPromise(o.t, "a put into "+r.channel, r.worst, lockLimit)
			if r.failed != 0 && need.IsLong() {
				o.t.Errorf("channel %s: %d puts failed, want none", r.channel, r.failed)
			}
		}
	}
}

// checkCounters waits until the counters of all mirrors add up and agree at both ends.
func (o *faultTest) checkCounters() {
	o.t.Helper()
	await.NoError(o.t, func() error {
		said := map[string]daemonStatus{}
		for host := range o.daemons {
			said[host] = o.status(host)
		}
		var errs []error
		for host := range said {
			for _, m := range said[host].Mirrors {
				errs = append(errs, o.auditMirror(said, host, m))
			}
		}
		return errors.Join(errs...)
	})
}

// auditMirror checks that the counters of a mirror add up, and agree with those of its
// origin and with the number of frames in shared memory.
func (o *faultTest) auditMirror(said map[string]daemonStatus, host string, m status.Mirror) error {
	if m.State == "refused" {
		return nil // it gets no frames, for example because it would be a loop
	}
	name := fmt.Sprintf("%s on %s", m.Name, host)
	if m.State != "live" || m.InFlight != 0 || decidedFrames(m.FrameCounters) != m.Offered {
		return fmt.Errorf("%s: got %s and %+v, want it live and closed", name, m.State, m.FrameCounters)
	}
	if origin, ours := said[m.Host]; ours {
		at := slices.IndexFunc(origin.Exports, func(e status.Subscription) bool { return e.Channel == m.Channel && e.Peer == host })
		if at < 0 {
			return fmt.Errorf("%s: %s serves nothing of it", name, m.Host)
		}
		if there := origin.Exports[at].FrameCounters; there != m.FrameCounters {
			return fmt.Errorf("%s: the two ends differ:\nmirror %+v\norigin %+v", name, m.FrameCounters, there)
		}
	}
	if o.restarted || o.replaced {
		return nil
	}
	if put := o.putCount(host, m.Name); put != m.Delivered+m.LateKept {
		return fmt.Errorf("%s: %d frames were put into it, and %d are accounted for: %+v", name, put, m.Delivered+m.LateKept, m.FrameCounters)
	}
	return nil
}

// decidedFrames returns the number of frames whose outcome is known.
func decidedFrames(a ledger.FrameCounters) uint64 {
	return a.Delivered + a.LateKept + a.Superseded + a.RateLimited + a.Expired + a.Lost + a.Late + a.Refused + a.Overflow
}

// checkLateFrames checks that no more frames were late than late_kept counts. On a
// busy machine a frame may become late between the mirror's decision and its put.
func (o *faultTest) checkLateFrames() {
	o.t.Helper()
	seen, kept := 0, uint64(0)
	if o.restarted {
		kept = o.lateKeptBefore + 2 // the replaced daemon's counts are lost
	}
	for host := range o.daemons {
		kept += lateKept(o.status(host))
	}
	for _, r := range o.readers {
		for _, view := range r.views {
			if strings.HasPrefix(view, "keep:") {
				seen += r.late(view, rule.DefaultBudget+machineDelay)
			}
		}
	}
	if uint64(seen) > kept && need.IsLong() {
		o.t.Errorf("late frames: %d were put, and %d are accounted for as late_kept", seen, kept)
	}
}

// machineDelay is the delay that a busy machine may add to the age of a frame outside
// of the budget: between a put and the watcher, and between the mirror's decision and
// its put.
const machineDelay = 100 * time.Millisecond

func lateKept(s daemonStatus) (sum uint64) {
	for _, m := range s.Mirrors {
		sum += m.LateKept
	}
	return sum
}

// late counts the frames of a view that were past limit when they were put.
func (o *observation) late(view string, limit time.Duration) (count int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.frames[view] {
		if s.Err == "" && s.Since-s.Put > int64(limit) {
			count++
		}
	}
	return count
}

// worstAge returns the greatest age of a view's newest frame, just before the view got
// a newer one, since a moment.
func (o *observation) worstAge(since moment) (worst time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, view := range o.views {
		list := o.frames[view]
		for i := 1; i < len(list); i++ {
			if list[i].Time > int64(since) && list[i-1].Err == "" {
				worst = max(worst, time.Duration(list[i].Time-list[i-1].Put))
			}
		}
	}
	return worst
}

func TestObservationFindsLateFrames(t *testing.T) {
	o := &observation{views: []string{"v"}, frames: map[string][]observedFrame{"v": {
		{Put: 10, Since: 9, Time: 15}, {Put: 20, Since: 28, Time: 40}, {Put: 50, Since: 90, Time: 91}, {Put: 60, Since: 59, Time: 300},
	}}}
	if got := o.late("v", 20); got != 1 {
		t.Errorf("got %d late frames, want 1: the observer was late for the last one", got)
	}
	if got, want := o.worstAge(40), 250*time.Nanosecond; got != want {
		t.Errorf("worst age: got %v, want %v", got, want)
	}
	if got, want := o.worstAge(300), time.Duration(0); got != want {
		t.Errorf("worst age after the last frame: got %v, want %v", got, want)
	}
}
