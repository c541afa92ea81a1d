package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"achbridge/bridge/fresh"
	"achbridge/bridge/transport"
	"achbridge/wire"
)

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
	in := l.inbound(h.Sub)
	if in == nil || in.epoch != h.Epoch {
		return nil // it ended meanwhile
	}
	records, packed := wire.NewRecordReader(s, in.limit), unpacker{}
	for {
		r, err := records.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", in.m.name, err)
		}
		data, err := packed.unpack(r.Codec, r.RawSize, in.limit, r.Data)
		if err != nil {
			in.m.refuseFrame(err)
			continue
		}
		a := arrival{from: in, epoch: in.epoch, seq: r.Seq, captured: r.Captured, at: l.readClock(), data: data, sent: len(r.Data)}
		for wait := busyRetry; in.m.putNext(a); wait = fresh.Longer(wait, busyRetry, busySeldom) {
			time.Sleep(wait)
			if l.inbound(h.Sub) != in {
				return nil
			}
			a.at = l.readClock()
		}
	}
}

// putNext puts the next frame of mode every. It reports whether the mirror's lock
// was taken, in which case nothing has happened. A frame of a subscription that has ended
// since it came is as good as lost: it may be of any age, and the mirror be one for
// commands by now.
func (m *mirror) putNext(a arrival) (busy bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.from != m.feed {
		return false
	}
	switch {
	case !m.ready() || a.epoch != m.tag.Epoch:
		m.count.Refused++
	case a.seq <= m.tag.Seq || a.seq < m.least:
		m.count.Duplicate++
	case m.late(a) && !m.lateIsPut(a): // no stream of ours has a budget: whatever changes, no old command is put
		m.count.Late++
	default:
		m.measure(a, true)
		err := m.write(a.seq, a.captured, a.at, a.data)
		if isBusy(err) {
			return true
		}
		if err != nil {
			m.fail(a.seq, err)
			return false
		}
		m.count.Delivered++
	}
	return false
}
