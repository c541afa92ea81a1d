package mirror

import (
	"encoding/binary"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
	"achbridge/localach"
)

const tenDays = 240 * time.Hour

// snsCommand returns a frame with a header of sns.
func snsCommand(stamp, valid time.Duration) []byte {
	b := make([]byte, 56)
	binary.LittleEndian.PutUint64(b, uint64(stamp/time.Second))
	binary.LittleEndian.PutUint64(b[8:], uint64(valid))
	binary.LittleEndian.PutUint32(b[16:], uint32(stamp%time.Second))
	return b
}

// stampMirror returns a mirror of sns frames of a host that booted ten days before ours. Our node's clock is at a minute,
// and both nodes started when our CLOCK_MONOTONIC was an hour.
func stampMirror(t *testing.T, dir localach.Dir, class rule.Class) *Mirror {
	t.Helper()
	m := testMirror(t, dir, "m")
	shifter, err := stamps.SNS.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	m.qos.Class = class
	m.Clock.At, m.Clock.Now = time.Hour, func() time.Duration { return time.Minute }
	m.beginShifting(&StampSource{StampClock: StampClock{Start: time.Hour + tenDays, Offset: &Offset{}}, Shifter: shifter, Read: func() Reading { return Reading{} }})
	return m
}

// newestStamp returns the stamp of the newest frame in the file of a mirror.
func newestStamp(t *testing.T, m *Mirror) time.Duration {
	t.Helper()
	b := make([]byte, 128)
	n, err := m.Newest(b)
	if err != nil || n < 56 {
		return -1
	}
	return time.Duration(binary.LittleEndian.Uint64(b))*time.Second + time.Duration(binary.LittleEndian.Uint32(b[16:]))
}

// stamped returns a frame that was stamped age ago by a host whose clock is known to within 3 ms.
func stamped(seq uint64, age, valid time.Duration) Arrival {
	a := arrival(seq, time.Minute, age)
	a.At.Uncertainty = 3 * milli
	a.Data = snsCommand(time.Hour+time.Minute+tenDays-age, valid)
	return a
}

func TestMirrorShiftsStamps(t *testing.T) {
	for class, want := range map[rule.Class]time.Duration{
		rule.State:   time.Hour + time.Minute - 10*milli,
		rule.Command: time.Hour + time.Minute - 13*milli, // earlier by the error, so that it does not live too long
	} {
		m := stampMirror(t, testDir(t), class)
		a := stamped(1, 10*milli, 100*milli)
		before := string(a.Data)
		m.Put(a)
		if got := newestStamp(t, m); got != want || string(a.Data) != before {
			t.Errorf("%v: the stamp is %v, want %v, and the received bytes unchanged", class, got, want)
		}
		if s := m.Status(time.Minute, a.At, "").Stamps; s.OffsetS != -tenDays.Seconds() || s.ErrorMs != 3 {
			t.Errorf("%v: status %+v, want the offset and its error", class, s)
		}
	}
}

func TestMirrorDropsExpiredCommands(t *testing.T) {
	m := stampMirror(t, testDir(t), rule.Command)
	m.Put(stamped(1, 10*milli, 12*milli)) // valid for 2 ms more, or expired for 1 ms
	bad := stamped(2, 10*milli, time.Second)
	bad.Data = bad.Data[:55]
	m.Put(bad)
	if want := (ledger.FrameCounters{Late: 1, Refused: 1}); m.counters.own != want || newestStamp(t, m) != -1 {
		t.Errorf("counters %+v, want %+v and no frame put", m.counters.own, want)
	}
	s := m.Status(time.Minute, Reading{}, "")
	if s.Stamps.Expired != 1 || s.Stamps.DurationMs != 12 || s.Cause != status.CauseBadFrame {
		t.Errorf("status %+v, cause %q", s.Stamps, s.Cause)
	}
	m.Put(stamped(3, 10*milli, 14*milli))
	if m.counters.own.Delivered != 1 {
		t.Errorf("counters %+v, want the valid command put", m.counters.own)
	}
}

func TestMirrorPutsUnparsedStateUnchanged(t *testing.T) {
	m := stampMirror(t, testDir(t), rule.State)
	a := stamped(1, 10*milli, 0)
	a.Data = frame(1, 55)
	m.Put(a)
	b := make([]byte, 128)
	n, err := m.Newest(b)
	if s := m.Status(time.Minute, a.At, "").Stamps; err != nil || string(b[:n]) != string(a.Data) || s.Unparsed != 1 {
		t.Errorf("got %x, %v, %+v, want the frame unchanged and counted", b[:n], err, s)
	}
}

// Nothing is put with its former stamp while the origin's clock is unknown.
func TestMirrorHoldsFramesUntilTheClockIsKnown(t *testing.T) {
	for _, mode := range []rule.Mode{rule.Newest, rule.Every} {
		m := stampMirror(t, testDir(t), rule.State)
		m.qos.Mode = mode
		unknown := func(seq uint64) Arrival {
			a := stamped(seq, 10*milli, 0)
			a.At = Reading{Now: time.Minute}
			return a
		}
		known := stamped(1, 0, 0).At
		if mode == rule.Every {
			if busy := m.putNext(unknown(1)); !busy {
				t.Error("mode every goes on before the clock is known")
			}
			a := unknown(1)
			a.At = known
			if busy := m.putNext(a); busy {
				t.Error("mode every waits though the clock is known")
			}
		} else {
			m.Spawn = func(func()) {} // the test retries
			m.Put(unknown(1))
			m.Put(unknown(2))
			if waits := m.putPending(Reading{}); !waits || newestStamp(t, m) != -1 {
				t.Error("a frame is put before the clock is known")
			}
			if waits := m.putPending(known); waits || m.file.tag.Seq != 2 {
				t.Errorf("frame %d is in the file, want 2, the newest", m.file.tag.Seq)
			}
		}
		if got, want := newestStamp(t, m), time.Hour+time.Minute-10*milli; got != want {
			t.Errorf("%v: the stamp is %v, want %v", mode, got, want)
		}
	}
}

func TestMirrorShiftsStampsWithoutAllocation(t *testing.T) {
	m := stampMirror(t, testDir(t), rule.State)
	a := stamped(1, 10*milli, 0)
	f := incoming{1, a.Captured, a.At, false, a.Data}
	m.mu.Lock()
	defer m.mu.Unlock()
	if got := testing.AllocsPerRun(100, func() {
		if _, err := m.shifted(f); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("shifted allocates %v times, want 0", got)
	}
}

// A peer would shift the stamp of an older frame as one of the new clock.
func TestMirrorNamesNoClockWhileItsNewestFrameHasAnother(t *testing.T) {
	m := stampMirror(t, testDir(t), rule.State)
	known := func(want bool) {
		t.Helper()
		if _, _, ok := m.StampOffset(stamped(1, 0, 0).At); ok != want {
			t.Errorf("the offset is known: %v, want %v", ok, want)
		}
	}
	known(true)
	m.Put(stamped(1, 10*milli, 0))
	known(true)
	m.beginShifting(&StampSource{StampClock: StampClock{Start: time.Hour, Offset: &Offset{}}})
	known(false)
	m.Put(stamped(2, 10*milli, 0))
	known(true)
}
