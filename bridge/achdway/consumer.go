package achdway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"achbridge/bridge/achd"
	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// Consumer feeds a mirror from a host that has achd and no achbridge.
type Consumer struct {
	hosts  *Hosts
	mirror *mirror.Mirror
	qos    rule.QoS
	fed    func()
	stop   context.CancelFunc

	hangUp    context.CancelFunc // ends the connection; nil without one
	from      netip.Addr         // the other end of the connection; zero without one
	hasFed    bool               // its frames have gone into the file
	isRefused bool               // the last connection ended because there can be no file
	logged    string             // the error that was logged last; empty if none was since frames arrived
}

// Consume feeds m until Stop. Each connection calls fed, on the node's goroutine, before its first frame. It returns nil, and
// refuses m, if the name of m's host is no address.
func (h *Hosts) Consume(m *mirror.Mirror, qos rule.QoS, fed func()) *Consumer {
	h.explain()
	from, err := rule.ParseAchd(m.Host)
	if err != nil {
		m.Refuse(causeOf(err), err.Error())
		return nil
	}
	ctx, stop := context.WithCancel(h.ctx)
	c := &Consumer{hosts: h, mirror: m, qos: qos, fed: fed, stop: stop}
	m.Unfed("", fmt.Sprintf("connecting to achd at %s, port %s", from.Host, from.Port))
	remote := h.remote(from, m.Channel, qos)
	h.cfg.Spawn(func() {
		h.keepConnecting(ctx, func() (time.Duration, error) { return c.connect(ctx, remote) }, c.ended)
	})
	return c
}

// Requalify feeds the mirror by another quality of service. It returns false after it has stopped c, because the host must be
// asked for other frames.
func (c *Consumer) Requalify(qos rule.QoS) bool {
	if qos == c.qos {
		return true
	}
	same := c.qos.Mode == qos.Mode && c.qos.MaxRate == qos.MaxRate
	if anew, _ := c.mirror.Requalify(qos); same && !anew {
		c.qos = qos
		return true
	}
	c.Stop()
	return false
}

// Stop ends the feeding. A nil Consumer has none.
func (c *Consumer) Stop() {
	if c != nil {
		c.stop()
	}
}

// HasFed reports whether frames have gone into the mirror's file. A nil Consumer has none.
func (c *Consumer) HasFed() bool { return c != nil && c.hasFed }

// From returns the address of the host while it feeds the mirror, otherwise the zero address.
func (c *Consumer) From() netip.Addr {
	if c == nil {
		return netip.Addr{}
	}
	return c.from
}

// connect makes one connection, and returns since when it was up, 0 for never, and why it ended.
func (c *Consumer) connect(ctx context.Context, remote achd.Remote) (up time.Duration, err error) {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	err = remote.Pull(ctx, func(g localach.Geometry, from netip.Addr) (put func([]byte), err error) {
		up = c.hosts.cfg.Now()
		err = context.Canceled
		c.hosts.call(ctx, func() {
			if put, err = c.begin(ctx, g); err == nil {
				c.hangUp, c.from = hangUp, from
			}
		})
		return put, err
	})
	return up, err
}

// begin makes the mirror ready for the frames of one connection. They get an epoch of their own, and numbers from 1 as they
// arrive, since achd does not number them.
func (c *Consumer) begin(ctx context.Context, g localach.Geometry) (put func([]byte), err error) {
	m := c.mirror
	feed := &mirror.Feed{Epoch: rand.Uint64() | 1}
	err = c.open(wire.Channel{Name: m.Channel, Epoch: feed.Epoch, FrameCount: g.FrameCount, FrameSize: g.FrameSize})
	if err == nil {
		m.Subscribe(feed, c.qos)
		_, err = m.Begin(feed.Epoch, 0, 0)
	}
	if c.isRefused = err != nil; c.isRefused {
		if m.Refuse(causeOf(err), err.Error()) {
			c.warn("mirror refused", status.EventRefused, err.Error(), "cause", err.Error())
		}
		return nil, err
	}
	c.hosts.cfg.Log.Info("achd's host feeds a mirror", "peer", m.Host, "channel", m.Name)
	c.hasFed, c.logged = true, ""
	c.fed()
	return c.putFrames(ctx, feed), nil
}

var errTooLarge = errors.New("too large")

// open opens the mirror's file. The host decides how large it is, within the limits for all mirrors.
func (c *Consumer) open(of wire.Channel) error {
	if why := mirror.Unsendable(localach.Geometry{FrameCount: of.FrameCount, FrameSize: of.FrameSize}); why != "" {
		return fmt.Errorf("%s/%s: %s%.0w", c.mirror.Host, c.mirror.Channel, why, errTooLarge)
	}
	return c.mirror.Open(of, [16]byte{}, "", c.qos)
}

// putFrames returns the function that puts the frames of one connection, on its goroutine.
func (c *Consumer) putFrames(ctx context.Context, feed *mirror.Feed) func([]byte) {
	clock, m := c.hosts.cfg.Now, c.mirror
	seq, every := uint64(0), c.qos.Mode == rule.Every
	return func(data []byte) {
		seq++
		now := clock()
		a := mirror.Arrival{From: feed, Epoch: feed.Epoch, Seq: seq, Captured: now, At: mirror.Reading{Now: now}, Data: data, Sent: len(data)}
		if !every {
			m.Put(a)
			return
		}
		m.PutInOrder(a, func() (mirror.Reading, bool) { return mirror.Reading{Now: clock()}, ctx.Err() == nil })
	}
}

// ended handles the end of a connection, or a failure to connect.
func (c *Consumer) ended(err error) {
	isRefused := c.isRefused
	c.hangUp, c.from, c.isRefused = nil, netip.Addr{}, false
	switch {
	case isRefused:
		return // the mirror's status has the reason
	case errors.Is(err, context.Canceled): // CheckFile has hung up, and logged why
		c.mirror.Unfed("", "connecting again, since its file was not usable any more")
		return
	}
	text := err.Error()
	if c.logged != text {
		c.warn("achd's host does not feed a mirror; it is asked again and again", status.EventPeerUnreachable, text, "err", err)
		c.logged = text
	}
	c.mirror.Unfed(causeOfEnd(err), "achd there: "+text)
}

// warn logs trouble with the mirror.
func (c *Consumer) warn(message string, kind status.EventKind, text string, args ...any) {
	m := c.mirror
	c.hosts.cfg.Warn(message, status.Event{Kind: kind, Host: m.Host, Channel: m.Channel, Mirror: m.Name, Text: text}, args...)
}

// CheckFile connects again if the mirror's file was removed or damaged, so that the file is replaced.
func (c *Consumer) CheckFile() {
	if c.hangUp == nil {
		return
	}
	if _, _, err := c.mirror.Look(); err != nil {
		c.hosts.cfg.Log.Warn("mirror's file is not usable any more", "channel", c.mirror.Name, "err", err)
		c.hangUp()
	}
}
