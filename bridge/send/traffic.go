package send

import (
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/delivery"
	"achbridge/bridge/pacing"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// traffic counts what a link carries. The link's mu guards it.
type traffic struct {
	sent, received uint64          // bytes
	filled         uint64          // bytes of received that are of a load test
	full           clock.Stopwatch // for how long frames have waited for the path
}

// wait records whether frames wait for the path from now on.
func (t *traffic) wait(now time.Duration, full bool) {
	if full {
		t.full.Start(now)
	} else {
		t.full.Stop(now)
	}
}

func (t *traffic) status(now time.Duration, f *delivery.Flight, r *delivery.Receipts) status.Traffic {
	s := status.Traffic{SentBytes: t.sent, ReceivedBytes: t.received, FullS: t.full.Total(now).Seconds()}
	s.Sent, s.Lost = f.Count()
	s.Received, s.Missed = r.Count()
	return s
}

// filler fills what frames leave free of a link, for a load test: a packet of the load leaves only while no frame waits, where a
// part of a large frame might, and is not sent again. The link's mu guards it.
type filler struct {
	until   time.Duration
	data    []byte
	seq     uint64
	bytes   int // bytes that have left
	arrived int // bytes known to have arrived
}

// MostLoad is how many bytes a load test sends at most: 1 Gbit/s of it.
const MostLoad = 375_000_000

func (f *filler) on(now time.Duration) bool { return now < f.until && f.bytes < MostLoad }

// Fill makes l send load for a time; 0 ends the load.
func (l *Link) Fill(d time.Duration) {
	l.mu.Lock()
	l.filler = filler{until: l.now() + d, data: make([]byte, wire.MaxDatagram)}
	l.mu.Unlock()
	l.Wake()
}

// addFill puts load into a datagram that is empty, though frames might have filled it. Needs
// l.mu.
func (l *Link) addFill(box *outbox, now time.Duration) {
	f := &l.filler
	if len(box.body) > 0 || box.stream > 0 || !f.on(now) {
		return
	}
	f.seq++
	box.cargo = pacing.Parts
	box.body = wire.AppendFrame(box.body, now, wire.Frame{Sub: wire.LoadSub, Seq: f.seq, Data: f.data[:l.room()-wire.MaxFrameOverhead]})
	box.pieces = append(box.pieces, delivery.Piece{Sub: wire.LoadSub, Seq: f.seq, Index: len(box.body), Whole: true})
	f.bytes += len(box.body)
}

// Count is what a link has carried one way so far.
type Count struct {
	At            time.Duration
	Bytes         uint64 // bytes that arrived here, or that left
	Packets, Lost uint64 // packets that arrived and are missing here, or that left and were lost
	Load          uint64 // bytes of load tests that arrived
}

// Received counts what the peer has sent.
func (l *Link) Received() Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := Count{At: l.now(), Bytes: l.traffic.received, Load: l.traffic.filled}
	c.Packets, c.Lost = l.receipts.Count()
	return c
}

// Sent counts what was sent to the peer.
func (l *Link) Sent() Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := Count{At: l.now(), Bytes: l.traffic.sent, Load: uint64(l.filler.arrived)}
	c.Packets, c.Lost = l.flight.Count()
	return c
}
