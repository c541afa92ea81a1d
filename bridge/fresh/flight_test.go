package fresh

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"achbridge/wire"
)

const ms = time.Millisecond

// sentPackets is a flight of n packets, one a millisecond from 1 ms on, each
// with one piece whose sequence number is the packet's.
func sentPackets(n int) *Flight {
	f := &Flight{}
	for i := range n {
		at := time.Duration(i+1) * ms
		number := f.NextNumber(at)
		f.Sent(at, number, 100, []Piece{{Sub: 1, Seq: number}})
	}
	return f
}

func seqs(pieces []Piece) []uint64 {
	list := []uint64{}
	for _, p := range pieces {
		list = append(list, p.Seq)
	}
	return list
}

func TestFeedbackSettlesPackets(t *testing.T) {
	for _, c := range []struct {
		name          string
		newest        uint64
		bitmap        uint64
		arrived, lost []uint64
		left          int
	}{
		{"all", 5, 0b1111, []uint64{1, 2, 3, 4, 5}, []uint64{}, 0},
		{"first only", 1, 0, []uint64{1}, []uint64{}, 4},
		{"gap too young to be lost", 5, 0b1100, []uint64{1, 2, 5}, []uint64{}, 2},
		{"gap behind three later ones", 5, 0b0111, []uint64{2, 3, 4, 5}, []uint64{1}, 0},
		{"about packets never sent", 6, 0b11111, []uint64{}, []uint64{}, 5},
		{"nothing", 0, 0, []uint64{}, []uint64{}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := sentPackets(5)
			out := f.Feedback(20*ms, 0, wire.Feedback{Newest: c.newest, Bitmap: c.bitmap})
			if !slices.Equal(seqs(out.Arrived), c.arrived) || !slices.Equal(seqs(out.Lost), c.lost) || f.Bytes() != 100*c.left {
				t.Errorf("got arrived %v, lost %v, %d B in flight; want %v, %v, %d", seqs(out.Arrived), seqs(out.Lost), f.Bytes(), c.arrived, c.lost, 100*c.left)
			}
		})
	}
}

func TestPacketsBeyondTheBitmapAreLost(t *testing.T) {
	f := sentPackets(100)
	out := f.Feedback(200*ms, 0, wire.Feedback{Newest: 100, Bitmap: ^uint64(0)})
	if len(out.Arrived) != 65 || out.LostPackets != 35 || f.Bytes() != 0 {
		t.Errorf("got %d arrived, %d lost, %d B in flight; want 65, 35, 0", len(out.Arrived), out.LostPackets, f.Bytes())
	}
}

func TestRoundTripIsTakenFromTheNewestPacketOnly(t *testing.T) {
	f := sentPackets(5)
	f.Feedback(27*ms, 2*ms, wire.Feedback{Newest: 5, Bitmap: 0b1111})
	if smoothed, least := f.RTT(); smoothed != 20*ms || least != 20*ms {
		t.Errorf("got %v, least %v; want 20ms", smoothed, least)
	}
}

func TestUnansweredPacketsExpire(t *testing.T) {
	f := sentPackets(2)
	if lost := f.Expire(1*ms + initialRTO - 1); len(lost) != 0 {
		t.Errorf("%v expired too early", lost)
	}
	at, ok := f.NextExpiry()
	if !ok || at != 1*ms+initialRTO {
		t.Errorf("next expiry %v, %v; want %v", at, ok, 1*ms+initialRTO)
	}
	if lost := seqs(f.Expire(at)); !slices.Equal(lost, []uint64{1}) {
		t.Errorf("got %v expired, want packet 1", lost)
	}
}

func TestPathIsSilentOnlyWhileAnAnswerIsDue(t *testing.T) {
	f := sentPackets(1)
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{{300 * ms, false}, {301 * ms, true}} {
		if got := f.Silent(c.at); got != c.want {
			t.Errorf("at %v: silent is %v, want %v", c.at, got, c.want)
		}
	}
	f.Feedback(310*ms, 0, wire.Feedback{Newest: 1})
	if f.Silent(time.Hour) {
		t.Error("silent although everything was answered")
	}
}

func TestPacketWithoutPiecesIsAnsweredToo(t *testing.T) {
	var f Flight
	f.Sent(0, f.NextNumber(0), 1000, nil) // what it tells of went over a stream
	f.Feedback(20*time.Millisecond, 0, wire.Feedback{Newest: 1})
	if f.Silent(time.Hour) {
		t.Error("silent although the only packet was answered")
	}
}

func TestFlightAllocatesNothingInSteadyState(t *testing.T) {
	f := &Flight{}
	pieces := []Piece{{Sub: 1}, {Sub: 2}}
	now := time.Duration(0)
	step := func() {
		now += ms
		number := f.NextNumber(now)
		f.Sent(now, number, 100, pieces)
		if number > 8 {
			f.Feedback(now, 0, wire.Feedback{Newest: number - 8, Bitmap: ^uint64(0)})
		}
	}
	for range 100 {
		step()
	}
	if n := testing.AllocsPerRun(1000, step); n != 0 {
		t.Errorf("%v allocations a packet, want none", n)
	}
}

func TestReceiptsTellWhatArrived(t *testing.T) {
	r := &Receipts{}
	for _, n := range []uint64{3, 1, 4, 70} {
		if !r.Received(ms, n, Frames) {
			t.Errorf("packet %d taken for a duplicate", n)
		}
	}
	for _, n := range []uint64{70, 4, 5} {
		if r.Received(2*ms, n, Frames) {
			t.Errorf("packet %d, a duplicate or too old to tell, was counted", n)
		}
	}
	f, ok := r.Report(3 * ms)
	if f.Newest != 70 || f.Bitmap != 0 || f.Arrived != ms || f.ArrivalCount != 0 || !ok {
		// 4 is 66 back: beyond the bitmap.
		t.Errorf("got %+v %v, want 70 alone at 1ms", f, ok)
	}
	r.Received(4*ms, 72, Frames)
	r.Received(5*ms, 73, Frames)
	f, _ = r.Report(5 * ms)
	if want := (wire.Arrival{Back: 1, Before: ms}); f.Bitmap != 0b101 || f.ArrivalCount != 1 || f.Arrivals[0] != want {
		t.Errorf("got bitmap %b and arrivals %v, want 101 and %v", f.Bitmap, f.Arrivals[:f.ArrivalCount], want)
	}
}

func TestReportIsDue(t *testing.T) {
	for _, c := range []struct {
		name   string
		cargos []Cargo
		due    time.Duration // after the first packet; negative: not at all
	}{
		{"only feedback asks for none", []Cargo{Nothing, Nothing}, -1},
		{"one part waits", []Cargo{Frames}, 7 * ms},
		{"a complete frame does not", []Cargo{Complete}, 0},
		{"sixteen parts do not", slices.Repeat([]Cargo{Frames}, reportPackets), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Receipts{}
			for i, cargo := range c.cargos {
				r.Received(time.Second, uint64(i+1), cargo)
			}
			at, ok := r.Due(7 * ms)
			if ok != (c.due >= 0) || ok && at != time.Second+c.due {
				t.Errorf("got %v, %v; want %v", at, ok, c.due)
			}
			r.Report(time.Second)
			if _, ok := r.Due(7 * ms); ok {
				t.Error("due again although nothing came since")
			}
		})
	}
}

func TestReportsKeepTheirDistance(t *testing.T) {
	r := &Receipts{}
	r.Received(10*ms, 1, Complete)
	r.Report(10 * ms)
	r.Received(10*ms+1, 2, Complete)
	if at, _ := r.Due(7 * ms); at != 10*ms+reportInterval {
		t.Errorf("got %v, want %v", at, 10*ms+reportInterval)
	}
}

func TestClockTakesTheLeastDelayedSample(t *testing.T) {
	// The peer's clock is 1 h ahead; packets take 5 ms and 5 ms, or wait 20 ms more on one way.
	c := &Clock{}
	const ahead = time.Hour
	at := time.Second
	c.Sample(at, at+ahead+25*ms, at+ahead+25*ms, at+30*ms)
	at += time.Second
	c.Sample(at, at+ahead+5*ms, at+ahead+8*ms, at+13*ms)
	offset, uncertainty, ok := c.Offset(at + 13*ms)
	if want := 5*ms + time.Microsecond; !ok || offset != ahead || uncertainty != want {
		t.Errorf("got %v ± %v, %v; want 1h ± %v", offset, uncertainty, ok, want)
	}
	if _, _, ok := c.Offset(at + time.Minute); ok {
		t.Error("an estimate a minute old still counts")
	}
	c.Sample(at, at, at+time.Second, at) // an impossible exchange
	if _, _, ok := c.Offset(at); !ok {
		t.Error("an impossible sample took the good one's place")
	}
}

func TestClockKeepsTheTrueOffsetInItsBounds(t *testing.T) {
	for _, ahead := range []time.Duration{-2 * 8760 * time.Hour, 0, 2 * 8760 * time.Hour} {
		for _, ppm := range []time.Duration{-100, 0, 100} {
			c := &Clock{}
			random := rand.New(rand.NewPCG(1, 2))
			peers := func(at time.Duration) time.Duration { return ahead + at + at*ppm/1e6 }
			delay := func() time.Duration { return 5*ms + time.Duration(random.ExpFloat64()*float64(3*ms)) }
			var now time.Duration
			for now = time.Second; now < 10*time.Minute; now += time.Duration(random.Int64N(int64(time.Second))) {
				arrived := now + delay()
				back := arrived + delay()
				c.Sample(now, peers(arrived), peers(arrived), back)
				for at := back; at < back+4*time.Second; at += 500 * ms { // and nothing more is heard
					offset, uncertainty, ok := c.Offset(at)
					if wrong := (peers(at) - at - offset).Abs(); !ok || wrong > uncertainty {
						t.Fatalf("%v ahead, %d ppm, at %v: wrong by %v, want at most %v", ahead, ppm, at, wrong, uncertainty)
					}
				}
			}
			if _, uncertainty, _ := c.Offset(now); uncertainty > 8*ms {
				t.Errorf("%v ahead, %d ppm: uncertain by %v, want at most 8ms on a way of 5ms", ahead, ppm, uncertainty)
			}
		}
	}
}

func TestRoundTripsOfEveryDelivery(t *testing.T) {
	f := sentPackets(3) // at 1, 2 and 3 ms
	r := wire.Feedback{Newest: 3, Bitmap: 0b11, Arrived: time.Hour + 13*ms, ArrivalCount: 2}
	r.Arrivals[0], r.Arrivals[1] = wire.Arrival{Back: 1, Before: ms / 2}, wire.Arrival{Back: 2, Before: 2 * ms}
	out := f.Feedback(28*ms, 5*ms, r)
	for i, want := range []time.Duration{20 * ms, 20*ms + ms/2, 20 * ms} {
		if got := out.Deliveries[i].RTT; got != want {
			t.Errorf("packet %d: got %v, want %v", i+1, got, want)
		}
	}
}

func TestReportIsRepeatedWhileNothingComes(t *testing.T) {
	r := &Receipts{}
	if at, ok := r.Reminder(); ok {
		t.Errorf("before the first packet: got a reminder at %v, want none", at)
	}
	r.Received(time.Second, 1, Complete)
	for _, reported := range []time.Duration{time.Second, 1250 * time.Millisecond} {
		r.Report(reported)
		if at, ok := r.Reminder(); !ok || at != reported+250*time.Millisecond {
			t.Errorf("reported at %v: got a reminder at %v, %v, want 250ms later", reported, at, ok)
		}
	}
	r.Received(2*time.Second, 2, Nothing)
	if at, _ := r.Reminder(); at != 2250*time.Millisecond {
		t.Errorf("after a packet at 2s: got a reminder at %v, want 2.25s", at)
	}
}
