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

// faultTest is a set of hosts over which a fault comes. Whatever it is: all mirrors
// follow again within resumed once it is over, nothing past its budget is put but
// what is counted as late_kept, the accounts of both ends close and agree with
// shared memory, no writer was held up, and nothing leaks.
//
//	o := s.startFaultTest(ordeal{publishers: …, daemons: …, readers: …})
//	s.link("robot", "cut")
//	time.Sleep(time.Second)
//	s.link("robot", "up")
//	o.finish("cut for 1 s", now())
//
// A fault that comes more than once calls recovers after each time.
type faultTest struct {
	*site
	publishers []*process          // the robot's writers
	daemons    map[string]*process // by host; a fault that replaces one puts the new one here
	readers    []*observation
	restarted  bool          // a daemon was replaced, and has forgotten what was in its accounts
	replaced   bool          // a mirror's file was replaced, and with it the number of frames put into it
	backlog    time.Duration // that frames of mode=every may take which were put during the fault, and come before newer ones

	began          moment
	before         map[string]footprint
	lateKeptBefore uint64 // late_kept of all mirrors before the fault
}

// startFaultTest returns when all readers follow and the hosts are at rest.
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

// checkRecovery checks that every view follows within resumed of the moment when the
// fault was over, that no frame in it was older than the fault explains, and
// tells both; the next fault begins now.
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

// finish is recovers for the last fault, and checks all the rest. It ends the
// publishers' work: their channels stay, and rest.
func (o *faultTest) finish(fault string, over moment) {
	o.t.Helper()
	o.checkRecovery(fault, over)
	o.checkLeaks()
	o.checkWriters()
	o.checkCounters()
	o.checkLateFrames()
}

// checkLeaks waits until every host is as it was: sessions that the fault has
// left behind may live for a while.
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

// lockLimit is after how long a put fails that cannot have the lock.
const lockLimit = 100 * time.Millisecond

// checkWriters ends the publishers' work and looks how long their puts took. A
// lock that somebody sat on would make one fail after 100 ms, as may a busy machine;
// a condition variable whose waiter was killed would never let it return.
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

// checkCounters waits until the accounts of both ends have come to rest.
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

// auditMirror holds the account of a mirror on a host against the identity, against
// what the origin says, and against what is in shared memory.
func (o *faultTest) auditMirror(said map[string]daemonStatus, host string, m status.Mirror) error {
	if m.State == "refused" {
		return nil // there is none: it would have been a loop, for instance
	}
	name := fmt.Sprintf("%s on %s", m.Name, host)
	if m.State != "live" || m.InFlight != 0 || decidedFrames(m.Accounts) != m.Offered {
		return fmt.Errorf("%s: got %s and %+v, want it live and closed", name, m.State, m.Accounts)
	}
	if origin, ours := said[m.Host]; ours {
		at := slices.IndexFunc(origin.Exports, func(e status.Subscription) bool { return e.Channel == m.Channel && e.Peer == host })
		if at < 0 {
			return fmt.Errorf("%s: %s serves nothing of it", name, m.Host)
		}
		if there := origin.Exports[at].Accounts; there != m.Accounts {
			return fmt.Errorf("%s: the two ends differ:\nmirror %+v\norigin %+v", name, m.Accounts, there)
		}
	}
	if o.restarted || o.replaced {
		return nil
	}
	if put := o.putCount(host, m.Name); put != m.Delivered+m.LateKept {
		return fmt.Errorf("%s: %d frames were put into it, and %d are accounted for: %+v", name, put, m.Delivered+m.LateKept, m.Accounts)
	}
	return nil
}

// decidedFrames are the frames whose fate an account knows.
func decidedFrames(a ledger.Accounts) uint64 {
	return a.Delivered + a.LateKept + a.Superseded + a.RateLimited + a.Expired + a.Lost + a.Late + a.Refused + a.Overflow
}

// checkLateFrames holds the frames that were seen late against late_kept, where a busy
// machine makes none late between the mirror's decision and its put.
func (o *faultTest) checkLateFrames() {
	o.t.Helper()
	seen, kept := 0, uint64(0)
	if o.restarted {
		kept = o.lateKeptBefore + 2 // nobody knows any more what was counted in between
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

// machineDelay is what this machine, busy with other things, may add to the age of a
// frame where no budget can see it: between a put and the watcher, and between
// the mirror's decision and its put.
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

// worstAge is the greatest age since a moment of the newest frame that a view had:
// just before it got a newer one.
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
		t.Errorf("got %d late frames, want 1: that the last one was seen late is the observer's fault", got)
	}
	if got, want := o.worstAge(40), 250*time.Nanosecond; got != want {
		t.Errorf("worst age: got %v, want %v", got, want)
	}
	if got, want := o.worstAge(300), time.Duration(0); got != want {
		t.Errorf("worst age of what came later: got %v, want %v", got, want)
	}
}
