package delivery

import (
	"slices"
	"testing"
	"time"

	"achbridge/wire"
)

func TestFeedbackListsReceivedPackets(t *testing.T) {
	r := &ReceivedPackets{}
	for _, n := range []uint64{3, 1, 4, 70} {
		if !r.Received(ms, n, 1000, Frames) {
			t.Errorf("packet %d taken for a duplicate", n)
		}
	}
	for _, n := range []uint64{70, 4, 5} {
		if r.Received(2*ms, n, 1000, Frames) {
			t.Errorf("packet %d, a duplicate or too old to tell, was counted", n)
		}
	}
	f, ok := r.Report(3*ms, 0)
	if f.Newest != 70 || f.Bitmap != 0 || f.Arrived != ms || f.ArrivalCount != 0 || !ok {
		// Number 4 is 66 before the newest, beyond the bitmap.
		t.Errorf("got %+v %v, want 70 alone at 1ms", f, ok)
	}
	r.Received(4*ms, 72, 1000, Frames)
	r.Received(5*ms, 73, 1000, Frames)
	f, _ = r.Report(5*ms, 0)
	if want := (wire.Arrival{Back: 1, Before: ms}); f.Bitmap != 0b101 || f.ArrivalCount != 1 || f.Arrivals[0] != want {
		t.Errorf("got bitmap %b and arrivals %v, want 101 and %v", f.Bitmap, f.Arrivals[:f.ArrivalCount], want)
	}
}

func TestFeedbackIsDue(t *testing.T) {
	for _, c := range []struct {
		name   string
		cargos []Cargo
		due    time.Duration // after the first packet; negative means never
	}{
		{"only feedback asks for none", []Cargo{Nothing, Nothing}, -1},
		{"one part waits", []Cargo{Frames}, 7 * ms},
		{"a complete frame does not", []Cargo{Complete}, 0},
		{"sixteen parts do not", slices.Repeat([]Cargo{Frames}, reportPackets), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &ReceivedPackets{}
			for i, cargo := range c.cargos {
				r.Received(time.Second, uint64(i+1), 1000, cargo)
			}
			at, ok := r.Due(7 * ms)
			if ok != (c.due >= 0) || ok && at != time.Second+c.due {
				t.Errorf("got %v, %v; want %v", at, ok, c.due)
			}
			r.Report(time.Second, 0)
			if _, ok := r.Due(7 * ms); ok {
				t.Error("feedback is due again without a further packet, want none due")
			}
		})
	}
}

func TestFeedbackKeepsMinimumInterval(t *testing.T) {
	r := &ReceivedPackets{}
	r.Received(10*ms, 1, 1000, Complete)
	r.Report(10*ms, 0)
	r.Received(10*ms+1, 2, 1000, Complete)
	if at, _ := r.Due(7 * ms); at != 10*ms+reportInterval {
		t.Errorf("got %v, want %v", at, 10*ms+reportInterval)
	}
}

func TestFeedbackIsRepeatedOnIdleLink(t *testing.T) {
	r := &ReceivedPackets{}
	if at, ok := r.Reminder(0); ok {
		t.Errorf("before the first packet: got a reminder at %v, want none", at)
	}
	r.Received(time.Second, 1, 1000, Complete)
	for _, reported := range []time.Duration{time.Second, 1250 * time.Millisecond} {
		r.Report(reported, 0)
		if at, ok := r.Reminder(0); !ok || at != reported+250*time.Millisecond {
			t.Errorf("reported at %v: got a reminder at %v, %v, want 250ms later", reported, at, ok)
		}
	}
	r.Received(2*time.Second, 2, 1000, Nothing)
	if at, _ := r.Reminder(0); at != 2250*time.Millisecond {
		t.Errorf("after a packet at 2s: got a reminder at %v, want 2.25s", at)
	}
	if at, _ := r.Reminder(3 * time.Second); at != 5*time.Second {
		t.Errorf("with a round trip of 3s: got a reminder at %v, want 5s", at)
	}
}

// feedbackFor receives a packet of size bytes every period for ten seconds. It returns the bytes
// of separate feedback packets, headers included, as a share of the received bytes.
func feedbackFor(size int, period time.Duration) float64 {
	r := &ReceivedPackets{}
	spent := 0
	number := uint64(0)
	const length = 10 * time.Second
	for now := time.Second; now < time.Second+length; now += 100 * time.Microsecond {
		if now%period == 0 {
			number++
			r.Received(now, number, size, Frames)
		}
		if at, ok := r.Due(5 * ms); ok && at <= now {
			f, _ := r.Report(now, 0)
			spent += len(wire.AppendFeedback(nil, f)) + ownHeader
		}
	}
	return float64(spent) / float64(int(number)*(size+HeaderBytes))
}

func TestFeedbackIsSmallShareOfTraffic(t *testing.T) {
	for _, c := range []struct {
		size   int
		period time.Duration
		most   float64
	}{
		{1036, 9 * ms, 0.05},  // 1 Mbit/s
		{1200, ms, 0.05},      // 10 Mbit/s
		{1200, ms / 10, 0.05}, // 100 Mbit/s
		{100, ms, 20.0 / 157}, // a small channel
		{1036, 90 * ms, 0.10}, // so slow that every packet arrives after a pause
	} {
		if got := feedbackFor(c.size, c.period); got > c.most*1.01 {
			t.Errorf("%d B every %v: feedback takes %.1f %%, want at most %.1f %%", c.size, c.period, 100*got, 100*c.most)
		}
	}
}

func TestFeedbackCreditDelaysOnlyParts(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // arrival, after the last report
		cargo Cargo
		count int
		due   time.Duration // after the last report
	}{
		{"a part waits for credit", 10 * ms, Frames, 1, newsInterval},
		{"a part after a pause does not wait", 200 * ms, Frames, 1, 205 * ms},
		{"the end of a frame does not wait", 10 * ms, Complete, 1, 10 * ms},
		{"packets that would leave the bitmap do not wait", 10 * ms, Frames, mostUnreported, 10 * ms},
	} {
		r := &ReceivedPackets{credit: -feedbackBurst * feedbackPart}
		r.Received(time.Second, 1, 100, Frames)
		r.Report(time.Second, 0)
		for i := range c.count {
			r.Received(time.Second+c.after, uint64(i+2), 100, c.cargo)
		}
		if at, ok := r.Due(5 * ms); !ok || at != time.Second+c.due {
			t.Errorf("%s: got %v, %v, want %v", c.name, at-time.Second, ok, c.due)
		}
	}
}

// On an idle link only reminders are sent. The first packet after a reminder must be
// reported as soon as any other packet after a pause.
func TestReminderDelaysNoFeedback(t *testing.T) {
	r := &ReceivedPackets{}
	now := time.Second
	for n := range uint64(4) { // small packets, which use up the credit
		r.Received(now, n+1, 30, Frames)
		r.Report(now, 0)
	}
	for range 100 {
		now, _ = r.Reminder(0)
		r.Report(now, 0)
	}
	now += ms
	r.Received(now, 5, 64, Frames)
	if at, ok := r.Due(5 * ms); !ok || at != now+5*ms {
		t.Errorf("got %v, %v; want %v", at, ok, now+5*ms)
	}
}
