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

// Consumer feeds a mirror from a host that runs achd but not achbridge. The node's goroutine owns it.
type Consumer struct {
	hosts  *Hosts
	mirror *mirror.Mirror
	qos    rule.QoS
	fed    func()
	stop   context.CancelFunc

	hangUp    context.CancelFunc // ends the connection; nil without a connection
	from      netip.Addr         // address of the peer; zero without a connection
	hasFed    bool               // frames have been written into the mirror's file
	isRefused bool               // the last connection ended because the mirror's file cannot be created
	logged    string             // error that was logged last; empty if none was logged since frames arrived
}

// Consume feeds m until Stop is called. Each connection calls fed, on the node's goroutine, before its first frame. If
// the name of m's host is not an address, Consume refuses m and returns nil.
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

// Requalify applies another quality of service. If the host must send other frames for it, Requalify stops c and returns
// false.
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

// Stop stops feeding the mirror. c may be nil.
func (c *Consumer) Stop() {
	if c != nil {
		c.stop()
	}
}

// HasFed reports whether frames have been written into the mirror's file. c may be nil.
func (c *Consumer) HasFed() bool { return c != nil && c.hasFed }

// From returns the address of the host while it feeds the mirror, otherwise the zero address. c may be nil.
func (c *Consumer) From() netip.Addr {
	if c == nil {
		return netip.Addr{}
	}
	return c.from
}

// connect runs one connection until it ends, and standbys of it while no frames arrive. up is the node time at which the last
// connection was established, 0 if it was not. err is the reason why it ended.
func (c *Consumer) connect(ctx context.Context, remote achd.Remote) (up time.Duration, err error) {
	current := c.dial(ctx, remote, nil)
	defer func() { current.end() }()
	for wait := silentFor; ; {
		before := current.frames()
		if err, ended := current.wait(wait); ended {
			return current.up, err
		}
		if current.frames() != before {
			wait = silentFor
			continue
		}
		wait = min(2*wait, mostSilentFor)
		standby := c.dial(ctx, remote, current)
		err, ended := current.wait(wait)
		switch {
		case standby.feeds():
			current, wait = standby, silentFor
		case ended:
			standby.end()
			return current.up, err
		default:
			standby.end()
		}
	}
}

// begin prepares the mirror for the frames of one connection. achd does not number frames, so each connection gets a new
// random epoch, and its frames are numbered from 1 in the order of arrival.
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
	c.hosts.cfg.Log.Info("achd host feeds a mirror", "peer", m.Host, "channel", m.Name)
	c.hasFed, c.logged = true, ""
	c.fed()
	return c.putFrames(ctx, feed), nil
}

var errTooLarge = errors.New("too large")

// open opens the mirror's file. The host decides its size, within the limits for all mirrors.
func (c *Consumer) open(of wire.Channel) error {
	if why := mirror.Unsendable(localach.Geometry{FrameCount: of.FrameCount, FrameSize: of.FrameSize}); why != "" {
		return fmt.Errorf("%s/%s: %s%.0w", c.mirror.Host, c.mirror.Channel, why, errTooLarge)
	}
	return c.mirror.Open(of, [16]byte{}, "", c.qos)
}

// putFrames returns the function that writes the frames of one connection into the mirror. The connection's goroutine
// calls it.
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

// ended handles the end of a connection, or a failed attempt to connect.
func (c *Consumer) ended(err error) {
	isRefused := c.isRefused
	c.hangUp, c.from, c.isRefused = nil, netip.Addr{}, false
	switch {
	case isRefused:
		return // the mirror's status has the reason
	case errors.Is(err, context.Canceled): // CheckFile has closed the connection and logged the reason
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

// warn logs a problem with the mirror.
func (c *Consumer) warn(message string, kind status.EventKind, text string, args ...any) {
	m := c.mirror
	c.hosts.cfg.Warn(message, status.Event{Kind: kind, Host: m.Host, Channel: m.Channel, Mirror: m.Name, Text: text}, args...)
}

// CheckFile reconnects if the mirror's file was removed or damaged, so that the file is replaced.
func (c *Consumer) CheckFile() {
	if c.hangUp == nil {
		return
	}
	if _, _, err := c.mirror.Check(); err != nil {
		c.hosts.cfg.Log.Warn("mirror's file is not usable any more", "channel", c.mirror.Name, "err", err)
		c.hangUp()
	}
}
