package delivery

import (
	"slices"
	"testing"
	"time"

	"achbridge/wire"
)

const ms = time.Millisecond

// sentPackets returns a Flight of n packets, sent every millisecond from 1 ms on. Each has
// one piece, whose sequence number is the packet number.
func sentPackets(n int) *SentPackets {
	f := &SentPackets{}
	for i := range n {
		at := time.Duration(i+1) * ms
		number := f.NextNumber(at)
		f.Sent(at, number, 100, 100, []Piece{{Sub: 1, Seq: number}})
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
		inFlight      int
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
			if !slices.Equal(seqs(out.Arrived), c.arrived) || !slices.Equal(seqs(out.Lost), c.lost) || f.Bytes() != 100*c.inFlight {
				t.Errorf("got arrived %v, lost %v, %d B in flight; want %v, %v, %d", seqs(out.Arrived), seqs(out.Lost), f.Bytes(), c.arrived, c.lost, 100*c.inFlight)
			}
		})
	}
}

func TestPacketsOlderThanBitmapCountAsLost(t *testing.T) {
	f := sentPackets(100)
	out := f.Feedback(200*ms, 0, wire.Feedback{Newest: 100, Bitmap: ^uint64(0)})
	if len(out.Arrived) != 65 || out.LostPackets != 35 || f.Bytes() != 0 {
		t.Errorf("got %d arrived, %d lost, %d B in flight; want 65, 35, 0", len(out.Arrived), out.LostPackets, f.Bytes())
	}
}

func TestRoundTripUsesOnlyNewestPacket(t *testing.T) {
	f := sentPackets(5)
	f.Feedback(27*ms, 2*ms, wire.Feedback{Newest: 5, Bitmap: 0b1111})
	if smoothed, least := f.RTT(); smoothed != 20*ms || least != 20*ms {
		t.Errorf("got %v, least %v; want 20ms", smoothed, least)
	}
}

// A handshake with lost packets took 200 ms on a path of 20 ms. If that were averaged in,
// packets lost in the first seconds would be retransmitted too late.
func TestFirstFeedbackReplacesHandshakeRoundTrip(t *testing.T) {
	f := &SentPackets{}
	f.Begin(200 * ms)
	f.Sent(0, f.NextNumber(0), 100, 100, nil)
	f.Feedback(20*ms, 0, wire.Feedback{Newest: 1})
	if smoothed, least := f.RTT(); smoothed != 20*ms || least != 20*ms {
		t.Errorf("round trip: got %v, at least %v, want 20 ms", smoothed, least)
	}
	f.Sent(100*ms, f.NextNumber(100*ms), 100, 100, nil)
	if at, ok := f.NextExpiry(); !ok || at > 180*ms {
		t.Errorf("the next packet expires: got %v, %v, want before 180 ms", at, ok)
	}
}

// The round trip of a path may become longer during the lifetime of a link.
func TestMinRTTExpires(t *testing.T) {
	f := &SentPackets{}
	answer := func(at, rtt time.Duration) {
		number := f.NextNumber(at)
		f.Sent(at, number, 100, 100, nil)
		f.Feedback(at+rtt, 0, wire.Feedback{Newest: number})
	}
	answer(0, 2*ms)
	for at := time.Second; at <= 8*time.Second; at += time.Second {
		answer(at, 60*ms)
	}
	if _, least := f.RTT(); least != 2*ms {
		t.Errorf("least round trip after 8 s: got %v, want 2ms", least)
	}
	for at := 9 * time.Second; at <= 22*time.Second; at += time.Second {
		answer(at, 60*ms)
	}
	if _, least := f.RTT(); least != 60*ms {
		t.Errorf("least round trip 21 s after the last of 2 ms: got %v, want 60ms", least)
	}
	f.Longer(40 * ms)
	if _, least := f.RTT(); least != 100*ms {
		t.Errorf("the way has become 40 ms longer: got %v, want 100ms", least)
	}
	answer(23*time.Second, 90*ms)
	if _, least := f.RTT(); least != 90*ms {
		t.Errorf("minimum after a round trip of 90 ms: got %v, want 90ms", least)
	}
}

// A host that was suspended while a packet was in flight may compute a negative round trip.
func TestNegativeRoundTripIsIgnored(t *testing.T) {
	f := sentPackets(5)
	f.Feedback(27*ms, 2*ms, wire.Feedback{Newest: 4, Bitmap: 0b111})
	before, _ := f.RTT()
	out := f.Feedback(30*ms, 5*time.Second, wire.Feedback{Newest: 5, Bitmap: 0b1111})
	if smoothed, least := f.RTT(); smoothed != before || least != before {
		t.Errorf("got %v, least %v; want %v as before", smoothed, least, before)
	}
	if len(out.Arrived) != 1 || len(out.Deliveries) != 0 {
		t.Errorf("got %d arrived and %d deliveries, want 1, of which it is not known when", len(out.Arrived), len(out.Deliveries))
	}
}

func TestUnacknowledgedPacketsExpire(t *testing.T) {
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

func TestPathIsSilentOnlyWhileFeedbackIsDue(t *testing.T) {
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

// A packet that was lost and is not retransmitted (a command past its budget) does not
// mean that the path carries nothing.
func TestPathIsUnansweredOnlyWhileSending(t *testing.T) {
	var f SentPackets
	f.Sent(0, f.NextNumber(0), 100, 100, nil)
	if _, is := f.Unanswered(time.Second); is || !f.Silent(time.Second) {
		t.Error("unanswered because of one packet")
	}
	for at := time.Second; at < 2*time.Second; at += 50 * time.Millisecond {
		f.Sent(at, f.NextNumber(at), 100, 100, nil)
	}
	if since, is := f.Unanswered(2 * time.Second); !is || since != time.Second {
		t.Errorf("got %v, %v, want unanswered since the first of many", since, is)
	}
	if _, is := f.Unanswered(3 * time.Second); is {
		t.Error("unanswered long after the last packet")
	}
}

func TestExpiredPacketsCountAsHeld(t *testing.T) {
	var f SentPackets
	for range 3 {
		f.Sent(0, f.NextNumber(0), 1000, 1000, nil)
	}
	if f.Overdue(100*time.Millisecond) || !f.Overdue(initialRTO) {
		t.Error("overdue: want it when packets are taken for lost")
	}
	f.Expire(time.Second)
	if f.Bytes() != 0 || f.Held() < 3000 {
		t.Errorf("got %d bytes in flight and %d held, want none and all", f.Bytes(), f.Held())
	}
	f.Sent(time.Second, f.NextNumber(time.Second), 1000, 1000, nil)
	f.Feedback(time.Second, 0, wire.Feedback{Newest: 4})
	if f.Held() != 0 || f.Overdue(time.Hour) {
		t.Errorf("got %d bytes held after an answer, want none", f.Held())
	}
}

func TestPacketWithoutPiecesIsAcknowledged(t *testing.T) {
	var f SentPackets
	f.Sent(0, f.NextNumber(0), 1000, 1000, nil) // a packet whose frames were sent on a stream
	f.Feedback(20*time.Millisecond, 0, wire.Feedback{Newest: 1})
	if f.Silent(time.Hour) {
		t.Error("silent although the only packet was answered")
	}
}

func TestSentPacketsAllocateNothingInSteadyState(t *testing.T) {
	f := &SentPackets{}
	pieces := []Piece{{Sub: 1}, {Sub: 2}}
	now := time.Duration(0)
	step := func() {
		now += ms
		number := f.NextNumber(now)
		f.Sent(now, number, 100, 100, pieces)
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

// A packet without acknowledgement may stay unsettled for seconds.
func TestLostPacketRetainsNoOtherPacket(t *testing.T) {
	f := sentPackets(1)
	f.Expire(ms + initialRTO)
	for i := range 1000 {
		at := initialRTO + time.Duration(2+i)*ms
		f.Sent(at, f.NextNumber(at), 100, 100, []Piece{{Sub: 1}})
		f.Feedback(at+ms, 0, wire.Feedback{Newest: f.next})
	}
	if got := len(f.packets); got != 1 {
		t.Errorf("got %d packets to look at, want the lost one", got)
	}
}

func TestFeedbackReturnsRTTOfEachDelivery(t *testing.T) {
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

func TestLateFeedbackDelaysExpiry(t *testing.T) {
	f := sentPackets(4) // at 1 to 4 ms
	f.Feedback(63*ms, 40*ms, wire.Feedback{Newest: 3, Bitmap: 0b11, Arrived: time.Hour})
	if got := f.AckDelay(); got != 40*ms {
		t.Errorf("got a feedback delay of %v, want 40ms", got)
	}
	at, _ := f.NextExpiry()
	if want := 4*ms + 20*ms + 4*10*ms + 40*ms + timerMargin; at != want {
		t.Errorf("the packet that is left expires at %v, want %v", at, want)
	}
}

func TestFeedbackIsOverdueAfterMinRTT(t *testing.T) {
	const rtt = 20 * ms
	var f SentPackets
	f.Begin(rtt)
	f.Sent(0, f.NextNumber(0), 100, 100, nil)
	for _, c := range []struct {
		now  time.Duration
		late time.Duration
	}{{rtt - ms, -ms}, {rtt + 7*ms, 7 * ms}, {time.Second, time.Second - rtt}} {
		if late := f.Late(c.now); late != c.late {
			t.Errorf("after %v: got feedback overdue by %v, want %v", c.now, late, c.late)
		}
	}
	if late := new(SentPackets).Late(time.Second); late >= 0 {
		t.Errorf("nothing sent: got feedback overdue by %v, want none due", late)
	}
}
