package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/hubway"
	"achbridge/bridge/mirror"
	"achbridge/bridge/ring"
	"achbridge/bridge/transport"
	"achbridge/wire"
)

// inbound is one subscription of ours on one link. Its assembly belongs to
// the goroutine of receive.
type inbound struct {
	feed     mirror.Feed
	m        *binding
	limit    int    // bytes of the largest frame the origin's channel can hold
	have     uint64 // HaveSeq of our Subscribe
	assembly delivery.Assemblies
	consumer *hubway.Consumer        // fetches its frames from the hub; nil: none. The node's, and read below inMu
	last     uint64                  // LastSeq of the origin's answer
	stream   transport.ReceiveStream // that brings its frames in order; nil: none. Guarded by inMu
}

func (l *link) inbound(id uint32) *inbound {
	l.inMu.RLock()
	defer l.inMu.RUnlock()
	return l.imports[id]
}

func (l *link) setInbound(id uint32, in *inbound) {
	if stream := l.exchange(id, in); stream != nil {
		stream.Stop() // it holds memory
	}
}

// exchange returns the stream of the subscription that ends, nil if it has none.
func (l *link) exchange(id uint32, in *inbound) (ending transport.ReceiveStream) {
	l.inMu.Lock()
	defer l.inMu.Unlock()
	if old := l.imports[id]; old != nil {
		old.consumer.Stop()
		ending = old.stream
	}
	if in == nil {
		delete(l.imports, id)
	} else {
		l.imports[id] = in
	}
	return ending
}

// receive takes what the peer sends as datagrams and puts frames into their
// mirrors. It does nothing that waits: the transport's receive queue is short
// and drops the newest.
func (l *link) receive(ctx context.Context) error {
	bad := 0
	for {
		b, err := l.s.ReceiveDatagram(ctx)
		if err != nil {
			return err
		}
		d, err := wire.Parse(b)
		if err != nil {
			if bad++; bad == maxBadDatagrams {
				return fmt.Errorf("%d datagrams that are not ours, the last: %w", bad, err)
			}
			continue
		}
		l.take(d, len(b), l.n.now())
	}
}

// maxBadDatagrams is how many malformed datagrams end a link. They came
// through authenticated encryption, so they are no line noise.
const maxBadDatagrams = 100

func (l *link) take(d wire.Datagram, size int, now time.Duration) {
	at := l.reading
	at.Now = now
	var feedback wire.Feedback
	cargo, reported, empty, load := delivery.Nothing, false, true, 0
	for e, ok := d.Next(); ok; e, ok = d.Next() {
		empty = false
		switch e.Kind {
		case wire.KindFrame:
			cargo = max(cargo, delivery.Frames)
			if e.Frame.Sub == wire.LoadSub {
				load += len(e.Frame.Data)
				if e.Frame.Seq%16 == 0 { // as the last part of a frame, which is told of at once
					cargo = delivery.Complete
				}
			}
			if in := l.inbound(e.Frame.Sub); in != nil && uint32(in.feed.Epoch) == e.Frame.Epoch {
				l.put(in, at, e.Frame, e.Frame.Data)
			}
		case wire.KindPart:
			if l.takePart(at, e.Part) {
				cargo = delivery.Complete
			}
			cargo = max(cargo, delivery.Frames)
		case wire.KindMark:
			cargo = max(cargo, delivery.Frames)
		case wire.KindFeedback:
			feedback, reported = e.Feedback(), true
		}
	}
	if empty { // it asks for nothing but an answer
		cargo = delivery.Frames
	}
	l.mu.Lock()
	l.receipts.Received(now, d.Number, size, cargo)
	l.traffic.in(size)
	l.traffic.load += uint64(load)
	if reported {
		l.feedback(now, d.Sent, feedback)
	}
	l.reading.Offset, l.reading.Uncertainty, l.reading.Known = l.clock.Offset(now)
	l.reading.Suspended = l.clock.KnownAt()
	report, due := l.receipts.Due(l.reportDelay())
	wake := reported && !l.idles(now) || due && report < l.look
	l.mu.Unlock()
	if wake {
		l.awake()
	}
}

// put brings a frame, which data holds as it came, into its mirror.
func (l *link) put(in *inbound, at mirror.Reading, f wire.Frame, data []byte) {
	if f.Codec != wire.CodecNone && in.m.Came(&in.feed, f.Seq) {
		return // unpacking it may cost a thousand times what it cost to send
	}
	sent := len(data)
	data, err := l.decompressor.Decompress(f.Codec, f.RawSize, in.limit, data)
	if err != nil {
		in.m.RefuseFrame(&in.feed, err)
		return
	}
	in.m.Put(mirror.Arrival{From: &in.feed, Epoch: in.feed.Epoch, Seq: f.Seq, Captured: f.Captured, Owed: f.Owed, At: at, Data: data, Sent: sent})
}

// takePart reports whether the part made its frame complete.
func (l *link) takePart(at mirror.Reading, p wire.Part) bool {
	in := l.inbound(p.Sub)
	if in == nil || uint32(in.feed.Epoch) != p.Epoch || p.Size > in.limit {
		return false
	}
	frame := in.assembly.Add(p)
	if frame == nil {
		return false
	}
	p.Owed = in.assembly.Owed()
	l.put(in, at, p.Frame, frame)
	return true
}

// playback takes the streams that the peer opens: one for each of our
// subscriptions in mode every.
func (l *link) playback(ctx context.Context) error {
	for {
		s, err := l.s.AcceptStream(ctx)
		if err != nil {
			return err
		}
		l.n.work.Go(func() {
			defer s.Stop()
			if err := l.record(s); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, transport.ErrReset) && l.s.Err() == nil {
				l.n.log.Warn("stream of a mirror failed", "peer", l.host, "err", err)
			}
		})
	}
}

// record puts the frames of one stream into its mirror, in order, for as long as
// the subscription lasts. A mirror whose lock is taken holds up only its stream,
// and so the peer, whose ring then drops the oldest.
func (l *link) record(s transport.ReceiveStream) error {
	h, err := wire.ReadStreamHeader(s)
	if err != nil {
		return err
	}
	in := l.plays(h, s)
	if in == nil {
		return nil
	}
	defer l.played(in)
	records, packed := wire.NewRecordReader(s, in.limit), ring.Decompressor{}
	still := func() (mirror.Reading, bool) { return l.readClock(), l.inbound(h.Sub) == in }
	for {
		r, err := records.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", in.m.Name, err)
		}
		data, err := packed.Decompress(r.Codec, r.RawSize, in.limit, r.Data)
		if err != nil {
			in.m.RefuseFrame(&in.feed, err)
			continue
		}
		a := mirror.Arrival{From: &in.feed, Epoch: in.feed.Epoch, Seq: r.Seq, Captured: r.Captured, At: l.readClock(), Data: data, Sent: len(r.Data)}
		if !in.m.PutInOrder(a, still) {
			return nil
		}
	}
}

// plays returns the subscription whose frames the stream brings from now on; nil: it has
// ended meanwhile, or has a stream. One is enough, and each holds memory.
func (l *link) plays(h wire.StreamHeader, s transport.ReceiveStream) *inbound {
	l.inMu.Lock()
	defer l.inMu.Unlock()
	in := l.imports[h.Sub]
	if in == nil || in.feed.Epoch != h.Epoch || in.stream != nil {
		return nil
	}
	in.stream = s
	return in
}

func (l *link) played(in *inbound) {
	l.inMu.Lock()
	defer l.inMu.Unlock()
	in.stream = nil
}

// missing needs l.mu.
func (l *link) missing(p delivery.Piece) {
	if p.Sub == pingSub {
		l.pong(p.Seq, Pong{Lost: true})
	}
	if sub := l.exports.sub(p.Sub); sub != nil {
		sub.missing(p)
		l.rouse(sub)
	}
}

func (l *link) addFeedback(box *outbox, now time.Duration) {
	if f, ok := l.receipts.Report(now, len(box.body)); ok {
		box.body = wire.AppendFeedback(box.body, f)
	}
}

// feedback takes a report of the peer about our packets. Needs l.mu.
func (l *link) feedback(now, sent time.Duration, f wire.Feedback) {
	if at, ok := l.flight.SentAt(f.Newest); ok {
		l.stepped += l.clock.Sample(at, f.Arrived, sent, now)
	}
	out := l.flight.Feedback(now, sent-f.Arrived, f)
	l.control.Feedback(now, out)
	for _, p := range out.Arrived {
		switch p.Sub {
		case pingSub:
			l.pinged(p.Seq, out, now-max(sent-f.Arrived, 0))
		case wire.LoadSub:
			l.filler.arrived(p.Index)
		}
		if sub := l.exports.sub(p.Sub); sub != nil {
			sub.delivered(p)
		}
	}
	for _, p := range out.Lost {
		l.missing(p)
	}
}
