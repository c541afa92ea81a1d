package mux

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/wire"
)

// output is the output of a mux.
type output struct {
	mirror  *mirror.Mirror
	cfg     Config
	feed    *mirror.Feed // nil while the output cannot be used
	lastPut uint64       // number of the last frame that was put
}

func (o *output) isOpen() bool { return o.feed != nil }

// check opens the output, or repairs its file. isNew reports that it was opened, or that its file is empty.
func (o *output) check(r rule.Mux, inputs []*input) (isNew bool, err error) {
	if o.feed != nil {
		if _, _, err := o.mirror.Check(); err == nil {
			_, err := o.mirror.Newest(nil)
			return errors.Is(err, os.ErrDeadlineExceeded), nil
		}
		o.feed = nil
	}
	feed, qos := &mirror.Feed{Epoch: rand.Uint64() | 1}, r.QoS()
	if err := o.mirror.Open(channelFor(r, inputs, feed.Epoch), o.cfg.Node, "", qos); err != nil {
		return false, err
	}
	o.mirror.Subscribe(feed, qos)
	if _, err := o.mirror.Begin(feed.Epoch, 0, 0); err != nil {
		return false, err
	}
	o.feed, o.lastPut = feed, 0
	return true, nil
}

// channelFor describes a new output: it has room for the frames of all inputs.
func channelFor(r rule.Mux, inputs []*input, epoch uint64) wire.Channel {
	c := wire.Channel{Name: r.Output, Epoch: epoch, FrameCount: 16, FrameSize: max(256, len(r.Safe.Frame))}
	for _, in := range inputs {
		if in.ch != nil {
			g := in.ch.Geometry()
			c.FrameCount, c.FrameSize = max(c.FrameCount, g.FrameCount), max(c.FrameSize, g.FrameSize)
		}
	}
	return c
}

// put puts a frame.
func (o *output) put(p mirror.Output) error {
	p.From, p.Epoch, p.Seq, p.Sent = o.feed, o.feed.Epoch, o.lastPut+1, len(p.Data)
	err := o.mirror.PutNow(p)
	if err == nil {
		o.lastPut++
	}
	return err
}

// endsWith reports whether the newest frame of the output is the safe frame, whatever the time in it.
func (o *output) endsWith(f safeFrame) bool {
	const stampGrowth = 64 // a stamp in a protobuf message may need more bytes than in the file
	newest := make([]byte, len(f.bytes)+stampGrowth)
	n, err := o.mirror.Newest(newest)
	return err == nil && bytes.Equal(f.at(time.Second), safeFrame{newest[:n], f.shifter}.at(time.Second))
}

// safeFrame is a safe frame. shifter sets its time: nil if it has no time, or if its layout is unknown.
type safeFrame struct {
	bytes   []byte
	shifter *stamps.Shifter
}

// at returns the safe frame for a put at now, by CLOCK_MONOTONIC. A frame whose time cannot be set stays unchanged.
func (f safeFrame) at(now time.Duration) []byte {
	if f.shifter == nil {
		return f.bytes
	}
	b, err := f.shifter.Stamp(nil, f.bytes, now)
	if err != nil {
		return f.bytes
	}
	return b
}
