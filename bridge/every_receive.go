package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"achbridge/bridge/mirror"
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
	if in == nil || in.feed.Epoch != h.Epoch {
		return nil // it ended meanwhile
	}
	records, packed := wire.NewRecordReader(s, in.limit), unpacker{}
	still := func() (mirror.Reading, bool) { return l.readClock(), l.inbound(h.Sub) == in }
	for {
		r, err := records.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", in.m.Name, err)
		}
		data, err := packed.unpack(r.Codec, r.RawSize, in.limit, r.Data)
		if err != nil {
			in.m.RefuseFrame(err)
			continue
		}
		a := mirror.Arrival{From: &in.feed, Epoch: in.feed.Epoch, Seq: r.Seq, Captured: r.Captured, At: l.readClock(), Data: data, Sent: len(r.Data)}
		if !in.m.PutInOrder(a, still) {
			return nil
		}
	}
}
