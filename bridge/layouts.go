package bridge

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"achbridge/bridge/layout"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// The catalog of a peer has the hash of a channel's layout. The layout itself is asked for when
// somebody on this host wants to see values, and is kept.

// Layout is what a channel's origin says of its frames.
type Layout struct {
	Host, Channel string // of the origin
	Packed        []byte // checked, as layout.Unpack takes it; nil: the origin says nothing, or see Why
	Why           string // the origin has a layout, and it is not here
}

// layoutWait is how long Layout waits for a layout.
const layoutWait = 2 * time.Second

// Layout returns what the origin of a channel says of its frames. of is HOST/CHANNEL, or a mirror.
// It waits for at most layoutWait. The error is fs.ErrNotExist if there is no such channel, or that
// of ctx.
func (n *Node) Layout(ctx context.Context, of string) (found Layout, err error) {
	var q *layoutQuery
	ok := n.call(func() {
		var at *described
		if at, err = n.describedBy(of); err == nil {
			found, q = n.wantLayout(at)
		}
	})
	switch {
	case !ok:
		return found, errEnded
	case err != nil || q == nil:
		return found, err
	}
	t := time.NewTimer(layoutWait)
	defer t.Stop()
	select {
	case <-q.done:
		found.Packed, found.Why = q.packed, q.why
	case <-t.C:
		found.Why = "it does not answer"
	case <-ctx.Done():
		return found, ctx.Err()
	case <-n.ended:
		return found, errEnded
	}
	return found, nil
}

// described is a channel of another host, and what names its layout.
type described struct {
	host, channel string
	hash          wire.Hash // zero: it has none
	link          *link     // nil: none
}

// describedBy finds HOST/CHANNEL, or the channel that a mirror is of.
func (n *Node) describedBy(of string) (*described, error) {
	if m := n.mirrors[of]; m != nil {
		return m.described(), nil
	}
	a, err := rule.ParseChannel(of)
	if err != nil {
		return nil, fmt.Errorf("%s: there is no such mirror%.0w", of, fs.ErrNotExist)
	}
	if l := n.linkOf(a.Host); l != nil {
		if c, ok := l.catalog[a.Channel]; ok {
			return &described{a.Host, a.Channel, c.Layout, l}, nil
		}
	}
	for _, m := range n.mirrors {
		if m.Host == a.Host && m.Channel == a.Channel {
			return m.described(), nil
		}
	}
	return nil, fmt.Errorf("%s: no linked host offers it%.0w", of, fs.ErrNotExist)
}

// described is the channel that a mirror is of. Without a link, what the origin said last counts.
func (m *binding) described() *described {
	d := &described{m.Host, m.Channel, m.origin.Layout, m.link}
	if m.link != nil {
		d.hash = m.link.catalog[m.Channel].Layout
	}
	return d
}

// wantLayout returns what there is to say at once, or the query that is to be waited for.
func (n *Node) wantLayout(d *described) (found Layout, q *layoutQuery) {
	found = Layout{Host: d.host, Channel: d.channel}
	if d.hash == (wire.Hash{}) {
		return found, nil
	}
	if found.Packed = n.layouts.take(d.hash); found.Packed != nil {
		return found, nil
	}
	switch {
	case d.link == nil || d.link.silent:
		found.Why = "there is no link to it"
	case d.link.layouts.bad[d.hash] != "":
		found.Why = d.link.layouts.bad[d.hash]
	default:
		if q = d.link.wantLayout(d.hash, d.channel); q == nil {
			found.Why = "too many of its layouts are asked for"
		}
	}
	return found, q
}

// layoutQuery is one layout that is asked of a peer. packed and why are there when done is closed.
type layoutQuery struct {
	hash    wire.Hash
	channel string
	until   time.Duration // an answer is waited for; 0: it is not asked yet
	packed  []byte
	why     string
	done    chan struct{}
	then    []func() // called by the node's goroutine when done is closed
}

// layoutQueries belong to the node's goroutine.
type layoutQueries struct {
	waiting []*layoutQuery          // not asked yet
	asked   map[uint32]*layoutQuery // by the id of the question; nil: none yet
	bad     map[wire.Hash]string    // why a layout of that hash is not taken from this peer
	pace    allowance
}

const (
	layoutsAtOnce   = 8   // questions of a link without an answer
	maxLayoutsAsked = 256 // of a link, with those that wait
	maxBadLayouts   = 64  // that a link remembers
	layoutTimeout   = 5 * time.Second
)

// wantLayout returns the query for a layout; nil when there are too many.
func (l *link) wantLayout(hash wire.Hash, channel string) *layoutQuery {
	for _, q := range l.layouts.asked {
		if q.hash == hash {
			return q
		}
	}
	for _, q := range l.layouts.waiting {
		if q.hash == hash {
			return q
		}
	}
	if len(l.layouts.waiting) >= maxLayoutsAsked {
		return nil
	}
	q := &layoutQuery{hash: hash, channel: channel, done: make(chan struct{})}
	l.layouts.waiting = append(l.layouts.waiting, q)
	l.askLayouts()
	return q
}

// askLayouts asks for layouts that are waited for, as many as may be asked for now.
func (l *link) askLayouts() {
	now, s := l.n.now(), &l.layouts
	for id, q := range s.asked {
		if now >= q.until {
			delete(s.asked, id)
			q.end(nil, "it does not answer")
		}
	}
	for len(s.waiting) > 0 && len(s.asked) < layoutsAtOnce && s.pace.take(now) {
		q := s.waiting[0]
		s.waiting = s.waiting[1:]
		if s.asked == nil {
			s.asked = make(map[uint32]*layoutQuery)
		}
		l.lastID++
		q.until, s.asked[l.lastID] = now+layoutTimeout, q
		l.send(wire.Describe{ID: l.lastID, Channel: q.channel})
	}
}

func (q *layoutQuery) end(packed []byte, why string) {
	q.packed, q.why = packed, why
	close(q.done)
	for _, f := range q.then {
		f()
	}
}

// endLayouts ends all queries of a link that is dropped.
func (l *link) endLayouts() {
	for _, q := range l.layouts.asked {
		q.end(nil, "the link to it has ended")
	}
	for _, q := range l.layouts.waiting {
		q.end(nil, "the link to it has ended")
	}
	l.layouts.asked, l.layouts.waiting = nil, nil
}

// layout handles a layout that the peer sends. One that was not asked for is left alone.
func (n *Node) layout(l *link, m wire.Layout) {
	q := l.layouts.asked[m.ID]
	if q == nil {
		return
	}
	delete(l.layouts.asked, m.ID)
	if kind, why := checked(m.Packed, q.hash); why != "" {
		if len(l.layouts.bad) >= maxBadLayouts || l.layouts.bad == nil {
			l.layouts.bad = make(map[wire.Hash]string)
		}
		l.layouts.bad[q.hash] = why
		l.refusal("layout refused", status.Event{Channel: q.channel, Text: why})
		q.end(nil, why)
	} else {
		n.layouts.add(keptLayout{q.hash, m.Packed, kind.Fit()})
		q.end(m.Packed, "")
	}
	l.askLayouts()
}

// checked unpacks a layout of that hash. why says why it is not taken; "" if it is.
func checked(packed []byte, hash wire.Hash) (l *layout.Layout, why string) {
	if layout.Hash(packed) != hash {
		return nil, "its layout is not the one of its catalog: the hash differs"
	}
	l, err := layout.Unpack(packed)
	switch {
	case err != nil:
		return nil, "its layout: " + err.Error()
	case l.Size > wire.MaxFrame:
		return nil, fmt.Sprintf("its layout is of %d bytes, and no frame has more than %d", l.Size, wire.MaxFrame)
	}
	return l, ""
}

// layoutRefused handles the peer's no.
func (l *link) layoutRefused(m wire.Refused) {
	if q := l.layouts.asked[m.ID]; q != nil {
		delete(l.layouts.asked, m.ID)
		q.end(nil, m.Text)
		l.askLayouts()
	}
}

// keptLayouts are layouts of other hosts, the one that was used last at the end.
type keptLayouts []keptLayout

type keptLayout struct {
	hash   wire.Hash
	packed []byte
	fit    layout.Fit
}

// maxLayouts is how many layouts are kept. Each has 64 KiB at most.
const maxLayouts = 256

// take returns a layout that is kept, nil when it is not.
func (k *keptLayouts) take(hash wire.Hash) []byte {
	i := slices.IndexFunc(*k, func(l keptLayout) bool { return l.hash == hash })
	if i < 0 {
		return nil
	}
	l := (*k)[i]
	*k = append(slices.Delete(*k, i, i+1), l)
	return l.packed
}

// fitOf says which frames fit a layout that is kept; nil when it is not.
func (k *keptLayouts) fitOf(hash wire.Hash) *layout.Fit {
	for i := range *k {
		if (*k)[i].hash == hash {
			fit := (*k)[i].fit
			return &fit
		}
	}
	return nil
}

// add keeps a layout, in place of the one that was not used for longest if there are too many.
func (k *keptLayouts) add(one keptLayout) {
	if len(*k) >= maxLayouts {
		*k = slices.Delete(*k, 0, 1)
	}
	*k = append(*k, one)
}
