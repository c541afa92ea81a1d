package send

import (
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/delivery"
	"achbridge/bridge/pacing"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/via"
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

func (t *traffic) status(now time.Duration, f *delivery.SentPackets, r *delivery.ReceivedPackets) status.Traffic {
	s := status.Traffic{SentBytes: t.sent, ReceivedBytes: t.received, FullS: t.full.Total(now).Seconds()}
	s.Sent, s.Lost = f.Count()
	s.Received, s.Missed = r.Count()
	return s
}

// loadGenerator fills what frames leave free of a link, for a load test: a packet of the load leaves only while no frame waits, where a
// part of a large frame might, and is not sent again. The link's mu guards it.
type loadGenerator struct {
	until   time.Duration
	data    []byte
	seq     uint64
	bytes   int // bytes that have left
	arrived int // bytes known to have arrived
}

// MostLoad is how many bytes a load test sends at most: 1 Gbit/s of it.
const MostLoad = 375_000_000

func (f *loadGenerator) on(now time.Duration) bool { return now < f.until && f.bytes < MostLoad }

// Fill makes l send load for a time; 0 ends the load.
func (l *Link) Fill(d time.Duration) {
	l.mu.Lock()
	l.loadGenerator = loadGenerator{until: l.now() + d, data: make([]byte, wire.MaxDatagram)}
	l.mu.Unlock()
	l.Wake()
}

// DSCP returns the mark for the packets of l, by the channels that l sends (rule.SessionDSCP). During a load test the mark is best
// effort.
func (l *Link) DSCP() via.DSCP {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loadGenerator.on(l.now()) {
		return via.CS0
	}
	var marks []via.DSCP
	for _, sub := range l.subs {
		marks = append(marks, sub.qos.DSCP())
	}
	return rule.SessionDSCP(marks...)
}

// addFill puts load into a datagram that is empty, though frames might have filled it. Needs
// l.mu.
func (l *Link) addFill(builder *datagramBuilder, now time.Duration) {
	f := &l.loadGenerator
	if len(builder.body) > 0 || builder.stream > 0 || !f.on(now) {
		return
	}
	f.seq++
	builder.cargo = pacing.Parts
	builder.body = wire.AppendFrame(builder.body, now, wire.Frame{Sub: wire.LoadSub, Seq: f.seq, Data: f.data[:l.room()-wire.MaxFrameOverhead]})
	builder.pieces = append(builder.pieces, delivery.Piece{Sub: wire.LoadSub, Seq: f.seq, Index: len(builder.body), Whole: true})
	f.bytes += len(builder.body)
}

// Count is what a link has carried one way so far.
type Count struct {
	At            time.Duration
	Bytes         uint64 // bytes that arrived here, or that left
	Datagrams     uint64 // packets that contained Bytes
	Packets, Lost uint64 // when receiving: packets that arrived, and packets that did not; when sending: packets with frames, and lost ones
	Load          uint64 // bytes of load tests that arrived
}

// Received counts what the peer has sent.
func (l *Link) Received() Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := Count{At: l.now(), Bytes: l.traffic.received, Load: l.traffic.filled}
	c.Packets, c.Lost = l.receivedPackets.Count()
	c.Datagrams = c.Packets
	return c
}

// Sent counts what was sent to the peer.
func (l *Link) Sent() Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := Count{At: l.now(), Bytes: l.traffic.sent, Datagrams: l.sentPackets.Newest(), Load: uint64(l.loadGenerator.arrived)}
	c.Packets, c.Lost = l.sentPackets.Count()
	return c
}
