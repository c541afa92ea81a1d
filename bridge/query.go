package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"achbridge/bridge/operator"
	"achbridge/bridge/rule"
	"achbridge/bridge/send"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// askedFor is the time that Ask waits for an answer.
const askedFor = time.Second

// Ask asks a linked host why it does not offer a channel. It returns the cause and the text of the
// answer. Both are empty if the host offers the channel. Without an answer within a second, the
// cause is empty and the text says so.
func (n *Node) Ask(ctx context.Context, host, channel string) (status.Cause, string) {
	if localach.CheckName(channel) != nil {
		return "", ""
	}
	answer := make(chan wire.Message, 1)
	var l *link
	var id uint32
	n.loop.call(func() {
		if l = n.linkOf(host); l == nil || l.isInSilence() {
			l = nil
			return
		}
		id = l.ask(answer)
		l.send(wire.Query{ID: id, Channel: channel})
	})
	if l == nil {
		return "", ""
	}
	defer n.loop.call(func() { delete(l.queries.answers, id) })
	t := time.NewTimer(askedFor)
	defer t.Stop()
	select {
	case m := <-answer:
		if refused, ok := m.(wire.Refused); ok {
			return causeOfRefusal(refused), refused.Text
		}
	case <-t.C:
		return "", l.unanswered()
	case <-ctx.Done():
	}
	return "", ""
}

// linkOf returns the link to a host, nil if there is none.
func (n *Node) linkOf(host string) *link {
	for _, l := range n.links {
		if l.host == host {
			return l
		}
	}
	return nil
}

// noLink returns the error of a request to a host without a link. It wraps fs.ErrNotExist.
func (n *Node) noLink(host string) error {
	if host == n.cfg.Host {
		return fmt.Errorf("%s is this host%.0w", host, fs.ErrNotExist)
	}
	return fmt.Errorf("no link to %s; `achbridge status` lists the peers%.0w", host, fs.ErrNotExist)
}

// ask returns an id for a message. The answer to that message goes to answer.
func (l *link) ask(answer chan wire.Message) uint32 {
	l.queries.lastID++
	l.queries.answers[l.queries.lastID] = answer
	return l.queries.lastID
}

// unanswered returns the text for a message that the peer has not answered.
func (l *link) unanswered() string {
	return l.host + " does not answer; its achbridge may be of another version"
}

// answered passes m on if it answers a message with an id of ask; otherwise it returns false.
func (l *link) answered(id uint32, m wire.Message) bool {
	answer, ok := l.queries.answers[id]
	if ok {
		delete(l.queries.answers, id)
		answer <- m
	}
	return ok
}

// refusalCodes are the codes that inform a peer why a channel of this host is not offered.
var refusalCodes = map[status.Cause]wire.Code{
	status.CauseFileMode:   wire.CodeAccess,
	status.CauseCorrupt:    wire.CodeCorrupt,
	status.CauseAch1x:      wire.CodeAch1x,
	status.CauseAch32Bit:   wire.CodeAch32Bit,
	status.CauseOtherLibc:  wire.CodeOtherLibc,
	status.CauseLimit:      wire.CodeLimit,
	status.CauseExportRule: wire.CodeForbidden,
}

// codeOf returns the wire code for the reason why a peer may not read a channel.
func codeOf(err error) wire.Code {
	if errors.Is(err, errMachine) {
		return wire.CodeMachine
	}
	return wire.CodeForbidden
}

// query answers the peer's question about a channel. If the peer may read the channel, the next
// catalog advertises it again, since the peer may have omitted it.
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
	delete(l.catalog.sent.channels, m.Channel)
	n.loop.changed()
	l.send(wire.Accepted{ID: m.ID})
}

// withheld returns the reason why l's peer is not offered a channel. If the rules deny the channel
// to the peer, the reason does not reveal whether the channel exists.
func (n *Node) withheld(l *link, name string) (wire.Code, string) {
	if _, err := n.cfg.Export.For(name, l.host); err != nil && n.pushes.to(l, name) == nil {
		return wire.CodeForbidden, forbidden(l, name, err)
	}
	c := n.locals.Get(name)
	switch {
	case c == nil:
		return wire.CodeAbsent, name + ": there is no such channel"
	case refusalCodes[c.Cause] != 0:
		return refusalCodes[c.Cause], name + ": " + c.Reason
	case c.Reason != "":
		return wire.CodeFailed, name + ": " + c.Reason
	}
	return wire.CodeAbsent, name + ": it is not offered"
}

// forbidden returns the text for l's peer that a rule does not let it read a channel.
func forbidden(l *link, channel string, cause error) string {
	return fmt.Sprintf("it does not let %s read %s: %v", l.host, channel, cause)
}

// Pong is the result of a Ping.
type Pong struct {
	send.Pong
	// Why is the reason why the link runs over its transport.
	Why  string
	Link status.Link
}

// Ping sends a small packet to a host over its link, and the host returns it. The error is
// fs.ErrNotExist without a link, or that of ctx.
func (n *Node) Ping(ctx context.Context, host string) (p Pong, err error) {
	var l *link
	answer := make(chan send.Pong, 1)
	n.loop.call(func() {
		if l = n.linkOf(host); l == nil {
			return
		}
		p.Why = n.peers.WhyOver(l.known(), n.view())
		p.Link, _ = l.status(n.now())
		if l.overHub() {
			l.pingHub(answer)
		}
	})
	switch {
	case l == nil:
		return p, n.noLink(host)
	case l.overHub():
		p.Pong, err = send.AwaitPong(ctx, answer)
	default:
		p.Pong, err = l.frames.Ping(ctx)
	}
	return p, err
}

// pingHub sends a stamp to the peer of a link over the hub. The result goes to answer, which must
// have capacity for it.
func (l *link) pingHub(answer chan<- send.Pong) {
	now := max(l.n.now(), 1)
	for asked := range l.path.stamps.pings {
		if now > asked+send.PingTimeout {
			delete(l.path.stamps.pings, asked)
		}
	}
	if l.path.stamps.pings == nil {
		l.path.stamps.pings = make(map[time.Duration]chan<- send.Pong)
	}
	l.path.stamps.pings[now] = answer
	l.send(wire.Stamp{T1: uint64(now)})
}

// Take takes the operator lock of a channel of another host, for a time; 0 means without end. force takes it from another
// holder. The error is the host's refusal.
func (n *Node) Take(ctx context.Context, of rule.Address, limit time.Duration, force bool) (status.Lock, error) {
	if limit < 0 || limit > wire.MaxHold {
		return status.Lock{}, fmt.Errorf("take %v: a lock can be held for %v at most", of, wire.MaxHold)
	}
	return n.askLock(ctx, of, "take", func(id uint32) wire.Message {
		return wire.Take{ID: id, Channel: of.Channel, For: limit, Force: force}
	})
}

// Release releases the operator lock of a channel of another host, or gives it to the host called to.
func (n *Node) Release(ctx context.Context, of rule.Address, to string) (status.Lock, error) {
	return n.askLock(ctx, of, "release", func(id uint32) wire.Message { return wire.Release{ID: id, Channel: of.Channel, To: to} })
}

// Holder returns who holds the operator lock of a channel, of another host or of this one.
func (n *Node) Holder(ctx context.Context, of rule.Address) (lock status.Lock, err error) {
	if of.Host != n.cfg.Host {
		return n.askLock(ctx, of, "who", func(id uint32) wire.Message { return wire.HolderQuery{ID: id, Channel: of.Channel} })
	}
	ran := n.loop.ask(func() {
		if n.lockRule(of.Channel) == nil {
			err = fmt.Errorf("who %v: no accept rule with operator names it%.0w", of, fs.ErrNotExist)
		}
		lock = lockStatus(of.Host, n.holderFor(nil, of.Channel), 0)
	})
	if !ran {
		err = errEnded
	}
	return lock, err
}

// remoteRequest is a request about a channel of another host, which that host answers with one message.
type remoteRequest struct {
	of      rule.Address
	command string                       // for errors
	message func(id uint32) wire.Message // the request
	support func(*link) error            // returns an error if the peer's achbridge does not know the request
	here    string                       // why a channel of this host is refused
	unsure  string                       // what is known, and what to do, if no answer arrives
}

// ErrNoAnswer is the error of a request that another host may have carried out, although its answer did not arrive.
var ErrNoAnswer = errors.New("no answer")

// answerWait is how long request waits for an answer.
const answerWait = 5 * time.Second

// request sends a request once and returns the answer. Its error is the host's refusal, fs.ErrNotExist without a link,
// ErrNoAnswer, or that of ctx.
func (n *Node) request(ctx context.Context, q remoteRequest) (wire.Message, error) {
	answer := make(chan wire.Message, 1)
	var l *link
	var id uint32
	var err error
	ran := n.loop.call(func() {
		switch l = n.linkOf(q.of.Host); {
		case q.of.Host == n.cfg.Host:
			err = errors.New(q.here)
		case l == nil || !l.hello.isReceived:
			err = n.noLink(q.of.Host)
		case l.isInSilence():
			err = fmt.Errorf("nothing comes from %s now", q.of.Host)
		default:
			if err = q.support(l); err == nil {
				id = l.ask(answer)
				l.send(q.message(id))
			}
		}
	})
	if !ran {
		err = errEnded
	}
	if err != nil {
		return nil, fmt.Errorf("%s %v: %w", q.command, q.of, err)
	}
	defer n.loop.call(func() { delete(l.queries.answers, id) })
	t := time.NewTimer(answerWait)
	defer t.Stop()
	select {
	case m := <-answer:
		if refused, ok := m.(wire.Refused); ok {
			return nil, fmt.Errorf("%s %v: %s", q.command, q.of, refused.Text)
		}
		return m, nil
	case <-l.s.Done():
		return nil, fmt.Errorf("%s %v: the link to %s has ended; %s%.0w", q.command, q.of, q.of.Host, q.unsure, ErrNoAnswer)
	case <-t.C:
		return nil, fmt.Errorf("%s %v: %s does not answer; %s%.0w", q.command, q.of, q.of.Host, q.unsure, ErrNoAnswer)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// askLock sends a host a request about a lock, and returns the lock after it.
func (n *Node) askLock(ctx context.Context, of rule.Address, command string, message func(id uint32) wire.Message) (lock status.Lock, err error) {
	m, err := n.request(ctx, remoteRequest{
		of: of, command: command, message: message,
		support: func(l *link) error {
			if !l.hello.knowsLocks {
				return errNoLocks(of.Host)
			}
			return nil
		},
		here:   fmt.Sprintf("it is a channel of this host, and the lock restricts the pushes of other hosts; achbridge who %s shows the holder", of.Channel),
		unsure: fmt.Sprintf("achbridge who %v shows whether it had the request", of),
	})
	if err != nil {
		return lock, err
	}
	holder, ok := m.(wire.Holder)
	if !ok {
		return lock, fmt.Errorf("%s %v: %s sent an answer to something else", command, of, of.Host)
	}
	return lockStatus(of.Host, holder, 0), nil
}

// lockStatus returns the locks of this host's channels, and those of the channels that this host pushes.
func (n *Node) lockStatus() []status.Lock {
	list := []status.Lock{}
	for _, l := range n.locks.List() {
		list = append(list, lockStatus(n.cfg.Host, n.holderFor(nil, l.Channel), 0))
	}
	for _, p := range n.pushes.list {
		if p.lock.Channel != "" {
			list = append(list, lockStatus(p.Host, p.lock.Holder, n.now()-p.lock.at))
		}
	}
	return list
}

// lockStatus returns the status of a lock of host, some time after the host reported it.
func lockStatus(host string, m wire.Holder, ago time.Duration) status.Lock {
	s := status.Lock{Host: host, Channel: m.Channel, Holder: m.Host, Generation: m.Generation, Mine: m.Yours, State: operator.Nobody.String()}
	switch {
	case m.InGrace:
		s.State = operator.InGrace.String()
	case m.Host != "":
		s.State = operator.Held.String()
	}
	if m.Host != "" {
		s.HeldS = (m.HeldFor + ago).Seconds()
	}
	if m.Left != 0 {
		left := max(0, m.Left-ago).Seconds()
		s.LeftS = &left
	}
	return s
}
