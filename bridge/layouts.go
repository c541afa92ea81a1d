package bridge

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"achbridge/bridge/layout"
	"achbridge/bridge/layouts"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// Layout is the answer of a channel's origin about the layout of its frames.
type Layout struct {
	Host, Channel  string // names of the origin
	layouts.Answer        // empty if the channel has no layout
}

// layoutTimeout is how long Node.Layout waits for a peer.
const layoutTimeout = 2 * time.Second

// Layout returns the layout of a channel of another host. of is HOST/CHANNEL or the name of a
// mirror. Layout waits for at most layoutTimeout. The error is fs.ErrNotExist if there is no such
// channel, or that of ctx.
func (n *Node) Layout(ctx context.Context, of string) (found Layout, err error) {
	var q *layouts.Request
	ok := n.loop.call(func() {
		var c *remoteChannel
		if c, err = n.remoteChannel(of); err == nil {
			found.Host, found.Channel = c.host, c.channel
			found.Answer, q = n.requestLayout(c)
		}
	})
	switch {
	case !ok:
		return found, errEnded
	case err != nil || q == nil:
		return found, err
	}
	t := time.NewTimer(layoutTimeout)
	defer t.Stop()
	select {
	case <-q.Done():
		found.Answer = q.Answer()
	case <-t.C:
		found.Why = "it does not answer"
	case <-ctx.Done():
		return found, ctx.Err()
	case <-n.loop.done:
		return found, errEnded
	}
	return found, nil
}

// remoteChannel is a channel of another host.
type remoteChannel struct {
	host, channel string
	layout        wire.Hash // zero means that the channel has no layout
	link          *link     // link to the host; nil without one
}

// remoteChannel finds the channel HOST/CHANNEL, or the channel of a mirror's origin.
func (n *Node) remoteChannel(of string) (*remoteChannel, error) {
	if m := n.mirrors.byName[of]; m != nil {
		return n.mirrors.remoteChannel(m), nil
	}
	a, err := rule.ParseChannel(of)
	if err != nil {
		return nil, fmt.Errorf("%s: no such mirror%.0w", of, fs.ErrNotExist)
	}
	if l := n.linkOf(a.Host); l != nil {
		if c, ok := l.catalog.remote.channels[a.Channel]; ok {
			return &remoteChannel{a.Host, a.Channel, c.Layout, l}, nil
		}
	}
	for _, m := range n.mirrors.byName {
		if m.Host == a.Host && m.Channel == a.Channel {
			return m.remoteChannel(), nil
		}
	}
	return nil, fmt.Errorf("%s: no linked host offers it%.0w", of, fs.ErrNotExist)
}

// remoteChannel returns the channel that m mirrors. Without a link it has the layout that the
// origin last announced.
func (m *binding) remoteChannel() *remoteChannel {
	c := &remoteChannel{m.Host, m.Channel, m.origin.Layout, m.link}
	if m.link != nil {
		c.layout = m.link.catalog.remote.channels[m.Channel].Layout
	}
	return c
}

// requestLayout returns the answer if it is known, and otherwise the request to wait for.
func (n *Node) requestLayout(c *remoteChannel) (known layouts.Answer, q *layouts.Request) {
	if c.layout == (wire.Hash{}) {
		return known, nil
	}
	if known.Encoded = n.layouts.Encoded(c.layout); known.Encoded != nil {
		return known, nil
	}
	if c.link == nil || c.link.isInSilence() {
		known.Why = "there is no link to it"
	} else if known.Why = c.link.layouts.requests.Rejected(c.layout); known.Why == "" {
		if q = c.link.layouts.requests.Add(time.Now(), c.layout, c.channel); q == nil {
			known.Why = "too many of its layouts are asked for"
		}
	}
	return known, q
}

// Layouts returns the encoded layouts of channels of this host and of mirrors, by name, as far as they are known. It requests
// those that only an origin has, and a later call returns them; requested has their names. It does not wait for other hosts.
func (n *Node) Layouts(names []string) (found map[string][]byte, requested map[string]bool) {
	found, requested = map[string][]byte{}, map[string]bool{}
	n.loop.call(func() {
		for _, name := range names {
			m := n.mirrors.byName[name]
			if m == nil {
				if r := n.cfg.Layouts.ForLocal(name); r != nil {
					found[name] = r.Encoded
				}
				continue
			}
			if r := n.layoutRule(m); r != nil {
				found[name] = r.Encoded
				continue
			}
			known, request := n.requestLayout(n.mirrors.remoteChannel(m))
			found[name], requested[name] = known.Encoded, request != nil
		}
	})
	return found, requested
}

// describeChannel sends wire.Describe and returns its id.
func (l *link) describeChannel(channel string) (id uint32) {
	l.queries.lastID++
	l.send(wire.Describe{ID: l.queries.lastID, Channel: channel})
	return l.queries.lastID
}

// layout handles a layout from the peer.
func (l *link) layout(m wire.Layout) {
	if channel, why := l.layouts.requests.Receive(time.Now(), m); why != "" {
		l.refusal("layout refused", status.Event{Channel: channel, Text: why})
	}
}

// describe answers a peer's request for the layout of a channel. The answer does not reveal
// whether the channel has no layout or the peer may not read it.
func (n *Node) describe(l *link, m wire.Describe) {
	c, advertised := n.locals.Get(m.Channel), l.catalog.sent.channels[m.Channel].Layout
	switch {
	case advertised == wire.Hash{} || c == nil || n.mirrors.layoutHash(c) != advertised:
		l.refuseLayout(m, wire.CodeAbsent, m.Channel+": it has no layout, or another one by now")
	case !l.layouts.answers.Allows(time.Now()) || l.out.unread() > maxControlBacklog/4:
		l.refuseLayout(m, wire.CodeLimit, fmt.Sprintf("%s gives no more layouts at once: ask again in some seconds", n.cfg.Host))
	case c.Layout != nil:
		l.sendLayout(m, c.Layout.Encoded)
	default:
		n.relayLayout(l, m, n.mirrors.byName[m.Channel])
	}
}

// relayLayout answers a peer's request for the layout of a mirror. It asks the mirror's origin if
// the layout is not in the cache.
func (n *Node) relayLayout(l *link, m wire.Describe, of *binding) {
	answer := func(a layouts.Answer) {
		if a.Encoded == nil {
			l.refuseLayout(m, wire.CodeAbsent, fmt.Sprintf("%s has not got it from %s: %s", n.cfg.Host, of.Host, a.Why))
			return
		}
		l.sendLayout(m, a.Encoded)
	}
	known, q := n.requestLayout(n.mirrors.remoteChannel(of))
	if q == nil {
		answer(known)
		return
	}
	end := l.layouts.answers.Wait()
	q.Then(func(a layouts.Answer) {
		end()
		answer(a)
	})
}

func (l *link) sendLayout(m wire.Describe, encoded []byte) {
	l.layouts.answers.Sent(time.Now(), len(encoded))
	l.send(wire.Layout{ID: m.ID, Encoded: encoded})
}

func (l *link) refuseLayout(m wire.Describe, code wire.Code, text string) {
	l.send(wire.Refused{ID: m.ID, Re: wire.TypeDescribe, Code: code, Text: wire.Text(text)})
}

// sizeChecks returns the size checks of local channels and mirrors with a known layout, by name.
// This host's configuration takes precedence over the origin's layout.
func (n *Node) sizeChecks() (ours, mirrors map[string]layouts.SizeCheck) {
	ours, mirrors = map[string]layouts.SizeCheck{}, map[string]layouts.SizeCheck{}
	for name, c := range n.locals.All() {
		if fit := c.Layout.Fit(); c.IsOpen() && fit != nil {
			ours[name] = layouts.SizeCheck{Fit: fit, From: status.TypeFromFile, Newest: c.Ring.Reader().TryNext}
		}
	}
	for name, m := range n.mirrors.byName {
		if fit, from := n.fitOfMirror(m); fit != nil {
			mirrors[name] = layouts.SizeCheck{Fit: fit, From: from, Newest: m.Newest}
		}
	}
	return ours, mirrors
}

// layoutRule returns this host's rule for the layout of a mirror, which takes precedence over the origin's layout. It
// returns nil if there is none.
func (n *Node) layoutRule(m *binding) *layouts.Rule {
	return n.cfg.Layouts.ForMirror(m.Host+"/"+m.Channel, m.ChannelName())
}

// localLayout returns the layout of a channel of this host, or nil.
func (n *Node) localLayout(channel string) *layouts.Rule {
	if r := n.cfg.Layouts.ForLocal(channel); r != nil || n.cfg.Published == nil {
		return r
	}
	if encoded := n.cfg.Published(channel); encoded != nil {
		return layouts.Rules{{Channels: channel, Encoded: encoded}}.Prepared().ForLocal(channel)
	}
	return nil
}

// encodedLayout returns the layout of channel c, which m mirrors from l's host. If it is not known, encodedLayout
// requests it from the origin and returns an error.
func (n *Node) encodedLayout(m *binding, l *link, c wire.Channel) ([]byte, error) {
	if ours := n.layoutRule(m); ours != nil {
		return ours.Encoded, nil
	}
	of := m.Host + "/" + m.Channel
	if c.Layout == (wire.Hash{}) {
		return nil, fmt.Errorf("no layout of %s is known; name its file in types, here or on %s", of, m.Host)
	}
	known, request := n.requestLayout(&remoteChannel{m.Host, m.Channel, c.Layout, l})
	switch {
	case request != nil:
		return nil, fmt.Errorf("the layout of %s is requested from %s", of, m.Host)
	case known.Encoded == nil:
		return nil, fmt.Errorf("the layout of %s is not known: %s", of, known.Why)
	}
	return known.Encoded, nil
}

// fitOfMirror returns the check for frames of a mirror's layout, or nil if the layout is unknown.
func (n *Node) fitOfMirror(m *binding) (*layout.Fit, status.TypeSource) {
	if r := n.layoutRule(m); r != nil {
		return r.Fit(), status.TypeFromFile
	}
	return n.layouts.Fit(n.mirrors.remoteChannel(m).layout), status.TypeFromOrigin
}
