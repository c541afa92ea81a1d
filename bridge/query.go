package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/pacing"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// askedFor is how long Ask waits for an answer.
const askedFor = time.Second

// Ask asks a linked host why it does not offer a channel. It returns the cause and the text of
// the answer. Both are empty if the host offers the channel. Without an answer within a second,
// the cause is empty and the text says so.
func (n *Node) Ask(ctx context.Context, host, channel string) (status.Cause, string) {
	if localach.CheckName(channel) != nil {
		return "", ""
	}
	answer := make(chan wire.Refused, 1)
	var l *link
	var id uint32
	n.call(func() {
		if l = n.linkOf(host); l == nil || l.silent {
			l = nil
			return
		}
		id = l.ask(answer)
		l.send(wire.Query{ID: id, Channel: channel})
	})
	if l == nil {
		return "", ""
	}
	defer n.call(func() { delete(l.asked, id) })
	t := time.NewTimer(askedFor)
	defer t.Stop()
	select {
	case m := <-answer:
		if m.Code != 0 {
			return causeOfRefusal(m), m.Text
		}
	case <-t.C:
		return "", l.unanswered()
	case <-ctx.Done():
	}
	return "", ""
}

// linkOf is the link to a host, nil without one.
func (n *Node) linkOf(host string) *link {
	for _, l := range n.links {
		if l.host == host {
			return l
		}
	}
	return nil
}

// ask returns the id for a message whose answer goes to answer.
func (l *link) ask(answer chan wire.Refused) uint32 {
	l.lastID++
	l.asked[l.lastID] = answer
	return l.lastID
}

// unanswered returns the text for a message that the peer has not answered.
func (l *link) unanswered() string {
	return l.host + " does not answer; its achbridge may be of another version"
}

// answered handles m if it answers a message that has an id of ask; otherwise it returns false.
// A code of 0 means yes.
func (l *link) answered(m wire.Refused) bool {
	answer, ok := l.asked[m.ID]
	if ok {
		delete(l.asked, m.ID)
		answer <- m
	}
	return ok
}

// refusalCodes are the codes by which a peer learns why a channel of this host is not offered.
var refusalCodes = map[status.Cause]wire.Code{
	status.CauseFileMode:   wire.CodeAccess,
	status.CauseCorrupt:    wire.CodeCorrupt,
	status.CauseAch1x:      wire.CodeAch1x,
	status.CauseAch32Bit:   wire.CodeAch32Bit,
	status.CauseOtherLibc:  wire.CodeOtherLibc,
	status.CauseLimit:      wire.CodeLimit,
	status.CauseExportRule: wire.CodeForbidden,
}

// codeOf returns the wire code of the reason why a peer may not read a channel.
func codeOf(err error) wire.Code {
	if errors.Is(err, errMachine) {
		return wire.CodeMachine
	}
	return wire.CodeForbidden
}

// query answers the peer's question about a channel. If the peer may read the channel, the next
// catalog lists it again, since the peer may have left it out.
func (n *Node) query(l *link, m wire.Query) {
	var code wire.Code
	var text string
	if n.readable(l, m.Channel) == nil {
		code, text = n.withheld(l, m.Channel)
	} else if _, err := n.permit(l, m.Channel, rule.QoS{}); err != nil {
		code, text = codeOf(err), forbidden(l, m.Channel, err)
	}
	if code != 0 {
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeQuery, Code: code, Text: wire.Text(text)})
		return
	}
	delete(l.advertised.channels, m.Channel)
	n.changed = true
	l.send(wire.Accepted{ID: m.ID})
}

// withheld says why l's peer is not offered a channel. If the rules refuse the channel to the
// peer, it does not say whether the channel exists.
func (n *Node) withheld(l *link, name string) (wire.Code, string) {
	if _, err := n.cfg.Export.For(name, l.host); err != nil && n.pushTo(l, name) == nil {
		return wire.CodeForbidden, forbidden(l, name, err)
	}
	c := n.locals[name]
	switch {
	case c == nil:
		return wire.CodeAbsent, name + ": there is no such channel"
	case refusalCodes[c.cause] != 0:
		return refusalCodes[c.cause], name + ": " + c.reason
	case c.reason != "":
		return wire.CodeFailed, name + ": " + c.reason
	}
	return wire.CodeAbsent, name + ": it is not offered"
}

// forbidden is the text for l's peer that a rule lets it not read a channel.
func forbidden(l *link, channel string, cause error) string {
	return fmt.Sprintf("it does not let %s read %s: %v", l.host, channel, cause)
}

// Pong is what became of a packet that was sent to a host and back.
type Pong struct {
	RTT  time.Duration // without the time for which the other host held its report back
	Lost bool
	// Why says why the link runs over its transport.
	Why  string
	Link status.Link
}

// ping is a packet that shall go there and back.
type ping struct {
	number uint64
	left   time.Duration // 0: not yet
	pong   chan Pong     // has room for one
}

// pingSub stands for pings among the pieces of a packet: no subscription has it.
const pingSub = 0

// pingWait is how long Ping waits at most.
const pingWait = time.Second

// Ping sends a small packet to a host and back, over its link. The error says that there is
// no link, and is fs.ErrNotExist then, or is that of ctx.
func (n *Node) Ping(ctx context.Context, host string) (p Pong, err error) {
	var l *link
	waiting := &ping{pong: make(chan Pong, 1)}
	n.call(func() {
		if l = n.linkOf(host); l == nil {
			return
		}
		p.Why = n.whyOver(l)
		p.Link, _ = l.status(n.now())
	})
	if l == nil {
		return p, fmt.Errorf("no link to %s; `achbridge status` tells of the peers%.0w", host, fs.ErrNotExist)
	}
	l.mu.Lock()
	n.pinged.Add(1)
	waiting.number = n.pinged.Load()
	l.pings = append(l.pings, waiting)
	l.mu.Unlock()
	l.ping()
	t := time.NewTimer(pingWait)
	defer t.Stop()
	select {
	case pong := <-waiting.pong:
		p.RTT, p.Lost = pong.RTT, pong.Lost
	case <-t.C:
		p.Lost = true
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	l.endPing(waiting.number)
	l.mu.Unlock()
	return p, err
}

// ping has the pings that wait leave now.
func (l *link) ping() {
	if !l.overHub() {
		l.awake()
		return
	}
	now := l.n.now()
	l.mu.Lock()
	for _, p := range l.pings {
		if p.left == 0 {
			p.left = max(now, 1)
		}
	}
	l.mu.Unlock()
	l.send(wire.Stamp{T1: uint64(max(now, 1))})
}

// addPings has the pings that wait go with the datagram, which is one without entries if
// there is nothing else in it. Needs l.mu.
func (l *link) addPings(box *outbox, now time.Duration) {
	for _, p := range l.pings {
		if p.left == 0 && len(box.body) == 0 {
			box.cargo = pacing.Probe
		}
		if p.left == 0 {
			p.left = now
			box.pieces = append(box.pieces, delivery.Piece{Sub: pingSub, Seq: p.number, Whole: true})
		}
	}
}

// pinged handles the arrival of a ping at the peer, of which it told so that we would have
// heard of its newest packet at prompt. Needs l.mu.
func (l *link) pinged(number uint64, out delivery.Outcome, prompt time.Duration) {
	for _, p := range l.pings {
		if p.number != number {
			continue
		}
		rtt, ok := out.RoundTrip(p.left)
		if !ok {
			rtt = max(0, prompt-p.left)
		}
		l.pong(number, Pong{RTT: rtt})
		return
	}
}

// pong answers a ping. Needs l.mu.
func (l *link) pong(number uint64, p Pong) {
	for _, waiting := range l.pings {
		if waiting.number == number {
			waiting.pong <- p
			l.endPing(number)
			return
		}
	}
}

// endPing needs l.mu.
func (l *link) endPing(number uint64) {
	l.pings = slices.DeleteFunc(l.pings, func(p *ping) bool { return p.number == number })
}
