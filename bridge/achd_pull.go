package bridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"achbridge/bridge/achd"
	"achbridge/bridge/mirror"
	"achbridge/bridge/peers"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// achdPull feeds a mirror from a host that has achd and no achbridge, over a connection of its own. Nothing proves who
// answers there, and nothing tells how old a frame is or what was never sent. It belongs to the node's goroutine.
type achdPull struct {
	qos    rule.QoS
	stop   context.CancelFunc // ends it
	hangUp context.CancelFunc // ends its connection; nil: it has none
	from   netip.Addr         // the other end of the connection; zero: it has none
	fed    bool               // its frames have gone into the file
	barred bool               // there can be no file for its frames
	failed string             // what the log has said of it; empty: all is well
}

// bindAchd makes what is pulled by achd's protocol agree with the wishes that say so.
func (n *Node) bindAchd() {
	for _, asked := range n.wishes() {
		if !rule.IsAchd(asked.Host) {
			continue
		}
		w, ok := n.wishFor(asked.Host, asked.Channel)
		name := w.Name(asked.Host, asked.Channel)
		if !ok || n.ending[name] {
			continue // the former mirror of this name must put its safe frame first, or somebody writes it
		}
		n.warnAchd()
		m := n.mirrors[name]
		switch {
		case m == nil && len(n.mirrors) >= maxMirrors:
			continue
		case m == nil:
			m = n.addMirror(asked.Host, asked.Channel, w)
		case m.Host != asked.Host || m.Channel != asked.Channel:
			n.rival(&n.warnings, m, rule.Address{Host: asked.Host, Channel: asked.Channel})
			continue
		}
		if m.achd == nil || m.achd.qos != w.QoS {
			n.pullByAchd(m, w.QoS)
		}
	}
}

// warnAchd says once what it means that achd's protocol is used.
func (n *Node) warnAchd() {
	if !n.toldAchd {
		n.log.Warn("achd's protocol is used with hosts that rules name: it has no authentication and no encryption, so whoever can answer at their addresses decides what is in the mirrors, and reads what is pushed")
	}
	n.toldAchd = true
}

// pullByAchd begins to feed m, or goes on with another quality of service. Only what the other host has to know needs
// another connection.
func (n *Node) pullByAchd(m *binding, qos rule.QoS) {
	from, err := rule.ParseAchd(m.Host)
	if err != nil {
		m.Refuse(causeOf(err), err.Error()) // rules are checked before
		return
	}
	if p := m.achd; p != nil {
		same := p.qos.Mode == qos.Mode && p.qos.MaxRate == qos.MaxRate
		if anew, _ := m.Mirror.Requalify(qos); same && !anew {
			p.qos = qos
			return
		}
		p.end()
	}
	ctx, stop := context.WithCancel(n.ctx)
	p := &achdPull{qos: qos, stop: stop}
	m.achd = p
	m.Unfed("", fmt.Sprintf("connecting to achd at %s, port %s", from.Host, from.Port))
	pull := achd.Remote{
		Host: from.Host, Port: from.Port, Channel: m.Channel, UDP: from.UDP, Dial: n.cfg.dialAchd,
		Newest: qos.Mode == rule.Newest, Period: qos.MaxRate.Interval(),
	}
	n.work.Go(func() { n.keepPulling(ctx, m, p, pull) })
}

func (p *achdPull) end() {
	p.stop()
	if p.hangUp != nil {
		p.hangUp()
	}
}

// keepPulling connects again and again until ctx ends.
func (n *Node) keepPulling(ctx context.Context, m *binding, p *achdPull, pull achd.Remote) {
	n.keepConnecting(ctx, func() (up time.Duration, err error) {
		conn, hangUp := context.WithCancel(ctx)
		defer hangUp()
		err = pull.Pull(conn, func(g localach.Geometry, from netip.Addr) (put func([]byte), err error) {
			up = n.now()
			err = errEnded
			n.call(func() {
				if m.achd != p || conn.Err() != nil {
					return
				}
				if put, err = n.feedByAchd(conn, m, g); err == nil {
					p.hangUp, p.from = hangUp, from
				}
			})
			return put, err
		})
		return up, err
	}, func(err error) { n.achdEnded(m, p, err) })
}

// keepConnecting makes one connection to a host with achd after the other until ctx ends, each after a back-off that
// begins anew when the last one was settled. once returns since when it was up (0: never) and why it ended; ended is
// told why, in the node's goroutine.
func (n *Node) keepConnecting(ctx context.Context, once func() (up time.Duration, err error), ended func(error)) {
	for failures := 0; ctx.Err() == nil; pause(ctx, peers.Backoff(failures, peers.LastBackoff)) {
		up, err := once()
		failures++
		if up != 0 && n.now() >= up+settled {
			failures = 0
		}
		if ctx.Err() == nil {
			n.call(func() { ended(err) })
		}
	}
}

// feedByAchd makes m ready for the frames of one connection, which are numbered from 1 as they come: in a life of
// the channel of its own, since achd does not number them.
func (n *Node) feedByAchd(ctx context.Context, m *binding, g localach.Geometry) (put func([]byte), err error) {
	p := m.achd
	c := wire.Channel{Name: m.Channel, Epoch: rand.Uint64() | 1, FrameCount: g.FrameCount, FrameSize: g.FrameSize}
	feed := &mirror.Feed{Epoch: c.Epoch}
	err = n.openForAchd(m, c, p.qos)
	if err == nil {
		m.Subscribe(feed, p.qos)
		_, err = m.Begin(c.Epoch, 0, 0)
	}
	if p.barred = err != nil; p.barred {
		if m.Refuse(causeOf(err), err.Error()) {
			n.warn(&n.warnings, "mirror refused", status.Event{Kind: status.EventRefused, Host: m.Host, Channel: m.Channel, Mirror: m.Name, Text: err.Error()}, "cause", err.Error())
		}
		return nil, err
	}
	n.log.Info("achd's host feeds a mirror", "peer", m.Host, "channel", m.Name)
	p.fed, p.failed = true, ""
	n.localChanged(m.Name)
	return n.putByAchd(ctx, m, feed), nil
}

// openForAchd opens the file of m. The host alone decides how large it is, within what all mirrors may take.
func (n *Node) openForAchd(m *binding, c wire.Channel, qos rule.QoS) error {
	if why := Unsendable(localach.Geometry{FrameCount: c.FrameCount, FrameSize: c.FrameSize}); why != "" {
		return fmt.Errorf("%s/%s: %s%.0w", m.Host, m.Channel, why, errTooMuch)
	}
	m.origin = c
	return m.Open(c, [16]byte{}, "", qos)
}

// putByAchd is what takes the frames of one connection, in its goroutine.
func (n *Node) putByAchd(ctx context.Context, m *binding, feed *mirror.Feed) func([]byte) {
	seq, every := uint64(0), m.achd.qos.Mode == rule.Every
	return func(data []byte) {
		seq++
		now := n.now()
		a := mirror.Arrival{From: feed, Epoch: feed.Epoch, Seq: seq, Captured: now, At: mirror.Reading{Now: now}, Data: data, Sent: len(data)}
		if !every {
			m.Put(a)
			return
		}
		m.PutInOrder(a, func() (mirror.Reading, bool) { return mirror.Reading{Now: n.now()}, ctx.Err() == nil })
	}
}

// achdEnded handles the end of a connection, or that there was none.
func (n *Node) achdEnded(m *binding, p *achdPull, err error) {
	if m.achd != p {
		return
	}
	barred := p.barred
	p.hangUp, p.from, p.barred = nil, netip.Addr{}, false
	switch {
	case barred:
		return // the mirror says why
	case errors.Is(err, context.Canceled): // by lookAtAchd, which has said why
		m.Unfed("", "connecting again, since its file was not usable any more")
		return
	}
	cause, text := causeOf(err), err.Error()
	if cause == status.CauseOther {
		cause = status.CausePeerSilent
	}
	if p.failed != text {
		n.warn(&n.warnings, "achd's host does not feed a mirror; it is asked again and again",
			status.Event{Kind: status.EventPeerUnreachable, Host: m.Host, Channel: m.Channel, Mirror: m.Name, Text: text}, "err", err)
	}
	p.failed = text
	m.Unfed(cause, "achd there: "+text)
}

// lookAtAchd has a file that was removed or damaged made anew, with another connection.
func (n *Node) lookAtAchd(m *binding) {
	if m.achd.hangUp == nil {
		return
	}
	if _, _, err := m.Look(); err != nil {
		n.log.Warn("mirror's file is not usable any more", "channel", m.Name, "err", err)
		m.achd.hangUp()
	}
}

// AchdSource is the address of the host that feeds a mirror by achd's protocol; zero: none does. That host must not
// read the mirror by the same protocol, or its frames would go round for ever.
func (n *Node) AchdSource(channel string) (from netip.Addr) {
	n.call(func() {
		if m := n.mirrors[channel]; m != nil && m.achd != nil {
			from = m.achd.from
		}
	})
	return from
}
