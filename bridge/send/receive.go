package send

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/mirror"
	"achbridge/bridge/ring"
	"achbridge/bridge/transport/session"
	"achbridge/wire"
)

// Inbound is one of our subscriptions to a channel of the peer: its frames go into a mirror.
type Inbound struct {
	Feed   mirror.Feed
	Mirror *mirror.Mirror
	Limit  int // bytes of the largest frame that the origin's channel can hold

	reassemblers delivery.Reassemblers // belongs to Receive
	stream       session.ReceiveStream // brings the frames in order; nil without one; guarded by receiver.mu
}

// AddInbound puts the frames of subscription id into in's mirror from now on.
func (l *Link) AddInbound(id uint32, in *Inbound) {
	l.receiver.mu.Lock()
	defer l.receiver.mu.Unlock()
	l.receiver.inbound[id] = in
}

// DropInbound puts no more frames of subscription id into its mirror, except for one that is being put now.
func (l *Link) DropInbound(id uint32) {
	l.receiver.mu.Lock()
	var stream session.ReceiveStream
	if in := l.receiver.inbound[id]; in != nil {
		stream = in.stream
	}
	delete(l.receiver.inbound, id)
	l.receiver.mu.Unlock()
	if stream != nil {
		stream.Stop() // an open stream holds memory
	}
}

func (r *receiver) find(id uint32) *Inbound {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.inbound[id]
}

// Receive takes the datagrams of the peer, and puts the frames in them into their mirrors, until
// ctx or the session ends. It does nothing that waits: the transport's receive queue is short
// and drops the newest.
func (l *Link) Receive(ctx context.Context) error {
	bad := 0
	for {
		b, err := l.session.ReceiveDatagram(ctx)
		if err != nil {
			return err
		}
		d, err := wire.Parse(b)
		if err != nil {
			if bad++; bad == MaxBadDatagrams {
				return fmt.Errorf("%d datagrams that are not ours, the last: %w", bad, err)
			}
			continue
		}
		if l.take(d, len(b), l.now()) {
			// The send loop must report before more packets are taken. On a busy host it might get a CPU only after all of them.
			runtime.Gosched()
		}
	}
}

// MaxBadDatagrams is how many malformed datagrams end a link. They came
// through authenticated encryption, so they are no line noise.
const MaxBadDatagrams = 100

// take handles a datagram. It reports whether the packets that are not reported yet fill a report.
func (l *Link) take(d wire.Datagram, size int, now time.Duration) (isFull bool) {
	at := l.receiver.reading
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
				if e.Frame.Seq%16 == 0 { // like the last part of a frame, which is reported at once
					cargo = delivery.Complete
				}
			}
			if in := l.receiver.find(e.Frame.Sub); in != nil && uint32(in.Feed.Epoch) == e.Frame.Epoch {
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
	if empty { // an empty datagram only requests feedback
		cargo = delivery.Frames
	}
	l.mu.Lock()
	l.receivedPackets.Received(now, d.Number, size, cargo)
	l.traffic.received += uint64(size)
	l.traffic.filled += uint64(load)
	if reported {
		l.feedback(now, d.Sent, feedback)
	}
	l.receiver.reading = l.clock.reading(now)
	report, due := l.receivedPackets.Due(l.reportDelay())
	wake := reported && !l.idles(now) || due && report < l.builder.wakeAt
	isFull = l.receivedPackets.IsFull()
	l.mu.Unlock()
	if wake {
		l.Wake()
	}
	return isFull
}

// put brings a frame, which data holds as it came, into its mirror.
func (l *Link) put(in *Inbound, at mirror.Reading, f wire.Frame, data []byte) {
	if f.Codec != wire.CodecNone && in.Mirror.Came(&in.Feed, f.Seq) {
		return // unpacking it may cost a thousand times what it cost to send
	}
	sent := len(data)
	data, err := l.receiver.decompressor.Decompress(f.Codec, f.RawSize, in.Limit, data)
	if err != nil {
		in.Mirror.RefuseFrame(&in.Feed, err)
		return
	}
	in.Mirror.Put(mirror.Arrival{From: &in.Feed, Epoch: in.Feed.Epoch, Seq: f.Seq, Captured: f.Captured, LastValue: f.LastValue, At: at, Data: data, Sent: sent})
}

// takePart reports whether the part made its frame complete.
func (l *Link) takePart(at mirror.Reading, p wire.Part) bool {
	in := l.receiver.find(p.Sub)
	if in == nil || uint32(in.Feed.Epoch) != p.Epoch || p.Size > in.Limit {
		return false
	}
	frame := in.reassemblers.Add(p)
	if frame == nil {
		return false
	}
	p.LastValue = in.reassemblers.LastValue()
	l.put(in, at, p.Frame, frame)
	return true
}

// ReceiveStreams takes the streams that the peer opens, one for each of our subscriptions in mode
// every, until ctx or the session ends.
func (l *Link) ReceiveStreams(ctx context.Context) error {
	for {
		s, err := l.session.AcceptStream(ctx)
		if err != nil {
			return err
		}
		l.cfg.Spawn(func() {
			defer s.Stop()
			if err := l.record(s); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, session.ErrReset) && l.session.Err() == nil {
				l.cfg.Log.Warn("stream of a mirror failed", "peer", l.cfg.Host, "err", err)
			}
		})
	}
}

// record puts the frames of one stream into its mirror, in order, for as long as
// the subscription lasts. A mirror whose lock is taken holds up only its stream,
// and so the peer, whose ring then drops the oldest.
func (l *Link) record(s session.ReceiveStream) error {
	h, err := wire.ReadStreamHeader(s)
	if err != nil {
		return err
	}
	in := l.plays(h, s)
	if in == nil {
		return nil
	}
	defer l.played(in)
	records, decompressor := wire.NewRecordReader(s, in.Limit), ring.Decompressor{}
	still := func() (mirror.Reading, bool) { return l.ReadClock(l.now()), l.receiver.find(h.Sub) == in }
	for {
		r, err := records.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", in.Mirror.Name, err)
		}
		data, err := decompressor.Decompress(r.Codec, r.RawSize, in.Limit, r.Data)
		if err != nil {
			in.Mirror.RefuseFrame(&in.Feed, err)
			continue
		}
		a := mirror.Arrival{From: &in.Feed, Epoch: in.Feed.Epoch, Seq: r.Seq, Captured: r.Captured, At: l.ReadClock(l.now()), Data: data, Sent: len(r.Data)}
		if !in.Mirror.PutInOrder(a, still) {
			return nil
		}
	}
}

// plays returns the subscription whose frames the stream brings from now on; nil: it has
// ended meanwhile, or has a stream. One is enough, and each holds memory.
func (l *Link) plays(h wire.StreamHeader, s session.ReceiveStream) *Inbound {
	l.receiver.mu.Lock()
	defer l.receiver.mu.Unlock()
	in := l.receiver.inbound[h.Sub]
	if in == nil || in.Feed.Epoch != h.Epoch || in.stream != nil {
		return nil
	}
	in.stream = s
	return in
}

func (l *Link) played(in *Inbound) {
	l.receiver.mu.Lock()
	defer l.receiver.mu.Unlock()
	in.stream = nil
}

// missing needs l.mu.
func (l *Link) missing(p delivery.Piece) {
	if p.Sub == pingSub {
		l.pings.answer(p.Seq, Pong{Lost: true})
	}
	if sub := l.subs[p.Sub]; sub != nil {
		sub.missing(p)
		l.activate(sub)
	}
}

func (l *Link) addFeedback(builder *datagramBuilder, now time.Duration) {
	if f, ok := l.receivedPackets.Report(now, len(builder.body)); ok {
		builder.body = wire.AppendFeedback(builder.body, f)
	}
}

// feedback takes a report of the peer about our packets. Needs l.mu.
func (l *Link) feedback(now, sent time.Duration, f wire.Feedback) {
	if at, ok := l.sentPackets.SentAt(f.Newest); ok {
		l.clock.stepped += l.clock.Sample(at, f.Arrived, sent, now)
	}
	out := l.sentPackets.Feedback(now, sent-f.Arrived, f)
	l.control.Feedback(now, out)
	for _, p := range out.Arrived {
		switch p.Sub {
		case pingSub:
			l.pings.arrived(p.Seq, out, now-max(sent-f.Arrived, 0))
		case wire.LoadSub:
			l.loadGenerator.arrived += p.Index
		}
		if sub := l.subs[p.Sub]; sub != nil {
			sub.delivered(p, now)
		}
	}
	for _, p := range out.Lost {
		l.missing(p)
	}
}
