package bridge

import (
	"context"
	"fmt"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// askedFor is how long Ask waits for an answer.
const askedFor = time.Second

// Ask asks a linked host why it does not offer a channel, and returns what it says,
// with its cause. Both are empty when it offers the channel, or says nothing. It waits
// for a second at most.
func (n *Node) Ask(ctx context.Context, host, channel string) (status.Cause, string) {
	if localach.CheckName(channel) != nil {
		return "", ""
	}
	answer := make(chan wire.Refused, 1)
	var l *link
	var id uint32
	n.call(func() {
		for _, other := range n.links {
			if other.host == host && !other.silent {
				l = other
			}
		}
		if l == nil {
			return
		}
		l.lastID++
		id = l.lastID
		l.asked[id] = answer
		// A life of the channel that there never was: it is refused, whatever is the matter.
		l.send(wire.Subscribe{ID: id, Channel: channel, QoS: rule.QoS{}.Wire()})
	})
	if l == nil {
		return "", ""
	}
	defer n.call(func() { delete(l.asked, id) })
	t := time.NewTimer(askedFor)
	defer t.Stop()
	select {
	case m := <-answer:
		if m.Code != wire.CodeEpoch {
			return causeOfRefusal(m), m.Text
		}
	case <-t.C:
	case <-ctx.Done():
	}
	return "", ""
}

// answered takes the answer to a question of Ask, and reports whether it was one.
func (l *link) answered(m wire.Refused) bool {
	answer, ok := l.asked[m.ID]
	if ok {
		delete(l.asked, m.ID)
		answer <- m
	}
	return ok
}

// withheld says why l's peer is not offered a channel. Of what the rules keep from the
// peer it does not tell whether it is there.
func (n *Node) withheld(l *link, name string) (wire.Code, string) {
	if _, err := n.cfg.Export.For(name, l.host); err != nil && !l.offered[name] {
		return wire.CodeForbidden, fmt.Sprintf("it does not let %s read %s: %v", l.host, name, err)
	}
	c := n.locals[name]
	switch {
	case c == nil:
		return wire.CodeAbsent, name + ": there is no such channel"
	case c.cause == status.CauseFileMode:
		return wire.CodeAccess, name + ": " + c.reason
	case c.cause == status.CauseCorrupt:
		return wire.CodeCorrupt, name + ": " + c.reason
	case c.cause == status.CauseLimit:
		return wire.CodeLimit, name + ": " + c.reason
	case c.cause == status.CauseExportRule:
		return wire.CodeForbidden, name + ": " + c.reason
	case c.reason != "":
		return wire.CodeFailed, name + ": " + c.reason
	}
	return wire.CodeAbsent, name + ": it is not offered"
}
