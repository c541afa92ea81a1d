package mirror

import (
	"sync"
	"testing"
	"time"

	"achbridge/bridge/operator"
	"achbridge/bridge/rule"
	"achbridge/localach/damage"
	"achbridge/wire"
)

var pcGrant = operator.Grant{Node: [16]byte{5}, Generation: 7}

// heldMirror returns a mirror that a holder of the operator lock feeds.
func heldMirror(t testing.TB, end time.Duration) (*Mirror, *Feed) {
	t.Helper()
	m := testMirror(t, testDir(t), "goal")
	feed := &Feed{Epoch: 1, Grant: pcGrant}
	m.Permit(operator.Right{Grant: pcGrant, End: end})
	m.Subscribe(feed, rule.QoS{})
	return m, feed
}

func from(feed *Feed, seq uint64) Arrival {
	a := came(seq, frame(seq, 64))
	a.From = feed
	return a
}

func TestFramesOfFormerHolderAreNotPut(t *testing.T) {
	for name, right := range map[string]operator.Right{
		"nobody":             {},
		"another generation": {Grant: operator.Grant{Node: pcGrant.Node, Generation: 8}},
		"another holder":     {Grant: operator.Grant{Node: [16]byte{6}, Generation: 7}},
	} {
		m, feed := heldMirror(t, 0)
		m.Put(from(feed, 1))
		m.Permit(right)
		m.Put(from(feed, 2))
		if !m.PutInOrder(from(feed, 3), func() (Reading, bool) { return Reading{}, true }) {
			t.Errorf("%s: the stream ended", name)
		}
		if got := newestSeq(t, m.Dir, "goal"); got != 1 {
			t.Errorf("%s: frame %d is in the file, want 1", name, got)
		}
		if m.counters.own.Refused != 2 || m.health.reason != "" {
			t.Errorf("%s: got %+v, %q, want two refused frames and no failure", name, m.counters.own, m.health.reason)
		}
	}
}

func TestFeedWithoutLockNeedsNoGrant(t *testing.T) {
	m := testMirror(t, testDir(t), "goal")
	feed := &Feed{Epoch: 1}
	m.Subscribe(feed, rule.QoS{})
	m.Put(from(feed, 1))
	m.Permit(operator.Right{Grant: pcGrant})
	m.Put(from(feed, 2))
	if got := newestSeq(t, m.Dir, "goal"); got != 1 {
		t.Errorf("frame %d is in the file, want 1: the second came while another host held the lock", got)
	}
}

// The node may notice the end of a lock later than its time.
func TestFrameAfterEndOfLockIsNotPut(t *testing.T) {
	end := time.Hour
	m, feed := heldMirror(t, end)
	now := end - 1
	m.Clock = Clock{Now: func() time.Duration { return now - 40*time.Minute }, At: 10 * time.Minute, Suspended: func() time.Duration { return 30 * time.Minute }}
	m.Put(from(feed, 1))
	now = end
	m.Put(from(feed, 2))
	if got := newestSeq(t, m.Dir, "goal"); got != 1 {
		t.Errorf("frame %d is in the file, want 1", got)
	}
}

func TestPendingFrameOfFormerHolderIsNotPut(t *testing.T) {
	m, feed := heldMirror(t, 0)
	m.Spawn = func(func()) {} // the test retries
	m.Put(from(feed, 1))
	damage.TakeLock(t, m.Dir, "goal")
	m.Put(from(feed, 2))
	if !m.putPending(Reading{}) {
		t.Fatal("frame 2 does not wait for the lock of the file")
	}
	m.Permit(operator.Right{})
	damage.FreeLock(t, m.Dir, "goal")
	if m.putPending(Reading{}) || newestSeq(t, m.Dir, "goal") != 1 {
		t.Errorf("frame %d is in the file, want 1", newestSeq(t, m.Dir, "goal"))
	}
	m.Permit(operator.Right{Grant: pcGrant})
	m.Put(from(feed, 3))
	if got := newestSeq(t, m.Dir, "goal"); got != 3 {
		t.Errorf("frame %d is in the file, want 3 of the holder again", got)
	}
}

// A holder puts as fast as it can, on another goroutine, while its right is revoked.
func TestNoFrameIsPutAfterPermitReturns(t *testing.T) {
	for range 200 {
		m, feed := heldMirror(t, 0)
		stop := make(chan struct{})
		var work sync.WaitGroup
		work.Go(func() {
			for seq := uint64(1); ; seq++ {
				select {
				case <-stop:
					return
				default:
					m.Put(from(feed, seq))
				}
			}
		})
		for m.lastPut() == 0 {
		}
		m.Permit(operator.Right{})
		last := m.lastPut()
		time.Sleep(200 * time.Microsecond)
		if got := m.lastPut(); got != last {
			t.Fatalf("frame %d was put after the right had ended, the last before it was %d", got, last)
		}
		close(stop)
		work.Wait()
	}
}

// lastPut returns the number of the newest frame in the file.
func (m *Mirror) lastPut() uint64 {
	_, seq := m.Holds()
	return seq
}

func TestOperatorLockNeedsNoMemory(t *testing.T) {
	m, _ := heldMirror(t, 1<<62)
	m.Clock.Suspended = func() time.Duration { return 0 }
	m.mu.Lock()
	defer m.mu.Unlock()
	if got := testing.AllocsPerRun(1000, func() {
		if !m.isPermitted() {
			t.Fatal("the holder may not put")
		}
	}); got != 0 {
		t.Errorf("isPermitted allocates %v times, want 0", got)
	}
}

// An earlier daemon was killed after it had put a command of another holder.
func TestSafeFrameIsPutBeforeNextHolder(t *testing.T) {
	former, feed := heldMirror(t, 0)
	former.Put(from(feed, 1))
	var work sync.WaitGroup
	next := bareMirror(former.Dir, "goal", work.Go)
	defer work.Wait()
	defer next.Close(func() {})
	next.qos = rule.QoS{Class: rule.Command, Deadline: time.Minute, OnStale: rule.OnStale{File: "safe", Frame: string(frame(99, 64))}}
	if err := next.openFile(wire.Channel{Name: "goal", FrameCount: 16, FrameSize: 64, Epoch: 1}, [16]byte{1}); err != nil {
		t.Fatal(err)
	}
	damage.TakeLock(t, former.Dir, "goal")
	if !next.PutSafe() {
		t.Error("PutSafe does not report that the lock of the file is taken")
	}
	damage.FreeLock(t, former.Dir, "goal")
	if next.PutSafe() || newestSeq(t, former.Dir, "goal") != 99 {
		t.Errorf("frame %d is in the file, want the safe one", newestSeq(t, former.Dir, "goal"))
	}
	if next.PutSafe() || next.deadlineMonitor.safe != 1 {
		t.Errorf("got %d safe frames, want one", next.deadlineMonitor.safe)
	}
}
