package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"achbridge/bridge/achdway"
	"achbridge/bridge/phases"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// pushAnswer is the time that Push waits for the peer's answer.
const pushAnswer = 2 * time.Second

// Push adds a request to push a channel, and waits at most two seconds for the peer to accept it.
// A request replaces an earlier one for the same channel, host and name; the subscription then
// gets the new QoS without a gap. If the peer refuses the request, Push drops it and returns the
// reason. If the peer or the channel is missing, the request stays and waits for it.
func (n *Node) Push(ctx context.Context, p rule.Push) error {
	if err := p.CheckOne(); err != nil {
		return err
	}
	answer := make(chan error, 1)
	if !n.loop.call(func() { n.addPush(p, answer) }) {
		return errors.New("push: the daemon has ended")
	}
	t := time.NewTimer(pushAnswer)
	defer t.Stop()
	var late error // nil if the peer has not answered in time: the request stays, and the status has the reason
	select {
	case err := <-answer:
		return err
	case <-t.C:
	case <-ctx.Done():
		late = ctx.Err()
	}
	n.loop.call(func() { n.pushes.forgetWaiter(answer) })
	select {
	case err := <-answer:
		return err // the answer arrived in the meantime
	default:
		return late
	}
}

func (n *Node) addPush(p rule.Push, answer chan error) {
	made := n.pushes.add(p, answer)
	if made == nil {
		return
	}
	n.localChanged(p.Channel)
	n.loop.changed() // even if the channel has not changed
	if n.locals.Get(p.Channel) == nil {
		made.reply(nil) // no peer answers before the channel exists
	}
}

// offerPushes offers l's peer the pushes that it was not offered yet.
func (n *Node) offerPushes(l *link) {
	for _, p := range n.pushes.due(l) {
		if err := n.machines.differs(l); err != nil {
			p.holdBack(l, err, status.CauseOtherMachine)
			continue
		}
		if p.QoS.Stamps != "" && (l.hello.start == 0 || !l.hello.knowsLocks) { // locks and pushed stamps came at the same time
			p.holdBack(l, fmt.Errorf("it is too old for the option stamps; update %s", l.host), status.CauseOther)
			continue
		}
		n.machines.use(l)
		l.queries.lastID++
		p.link, p.offerID = l, l.queries.lastID
		p.become(pushOffered, "", "")
		n.sendCatalog(l)
		l.send(wire.Offer{ID: p.offerID, Channel: p.Channel, As: p.NameThere(), QoS: p.QoS.Wire(), Generation: p.lock.generation(), Stamps: string(p.QoS.Stamps)})
		n.judgeExports(l) // a changed push may allow less
	}
}

// isMirror reports whether a channel is a mirror. Patterns do not match mirrors for pushes, so
// that frames of another host are not passed on by accident.
func (n *Node) isMirror(channel string) bool {
	c := n.locals.Get(channel)
	return n.mirrors.byName[channel] != nil && !n.mirrors.isOutput(channel) || c != nil && c.IsMirror
}

// push is a request to a peer to mirror a channel of this host.
type push struct {
	rule.Push
	isAdded bool               // added by Node.Push; a new configuration ends the push only by denying it
	link    *link              // link of the last offer; nil without one
	achd    *achdway.Publisher // sends the channel to a host with achd, in place of links; nil for other hosts
	offerID uint32             // id of the offer on link
	phase   pushPhase
	reason  string // why the push waits or was refused; empty if the phase says it all
	cause   status.Cause
	lock    reportedLock // operator lock of the mirror, as the peer reported it last
	waiters []chan error // calls of Node.Push that wait for the peer's answer; each channel has capacity 1
}

// pushPhase is the phase of a push.
type pushPhase uint8

const (
	pushUnoffered pushPhase = iota // waits for a channel, a link or the right machine, or has a new quality of service
	pushOffered                    // the peer has not answered
	pushAccepted
	pushRefused
)

// pushTransitions lists the phases that may follow each phase. There is no answer without an
// offer. A peer whose rules change answers again. An offer to a host with achd is repeated.
var pushTransitions = phases.Transitions[pushPhase]{
	pushUnoffered: {pushOffered},
	pushOffered:   {pushAccepted, pushRefused, pushUnoffered},
	pushAccepted:  {pushOffered, pushRefused, pushUnoffered},
	pushRefused:   {pushOffered, pushAccepted, pushUnoffered},
}

// state returns the phase as it appears in a status.
func (p pushPhase) state() status.PushState {
	switch p {
	case pushAccepted:
		return status.PushAccepted
	case pushRefused:
		return status.PushRefused
	}
	return status.PushWaiting
}

// become moves the push to a phase and stores the reason. If the phase is pushAccepted, waiting
// calls of Node.Push return.
func (p *push) become(phase pushPhase, reason string, cause status.Cause) {
	if !pushTransitions.Move(&p.phase, phase) {
		return
	}
	p.reason, p.cause = reason, cause
	if phase == pushAccepted {
		p.reply(nil)
	}
}

// reply sends the answer to the waiting calls of Node.Push. It returns false if there are none.
func (p *push) reply(err error) bool {
	waiters := p.waiters
	p.waiters = nil
	for _, c := range waiters {
		c <- err
	}
	return len(waiters) > 0
}

// renew makes the push be offered again with another quality of service. If it was refused, it
// grants nothing until then.
func (p *push) renew(with rule.Push) {
	if p.phase == pushRefused {
		p.link = nil
	}
	p.Push = with
	p.become(pushUnoffered, "", "")
}

// holdBack makes a push wait because its host may not receive it. It logs that once.
func (p *push) holdBack(l *link, why error, cause status.Cause) {
	p.reply(nil)
	if p.cause == cause {
		return
	}
	p.become(pushUnoffered, l.host+": "+why.Error(), cause)
	l.refusal("push held back", status.Event{Channel: p.Channel, Text: why.Error()})
}

// publish sends the channel to a host with achd.
func (p *push) publish(by *achdway.Hosts) {
	p.achd = by.Publish(p.Push, func(reason string, cause status.Cause) {
		if reason == "" {
			p.become(pushAccepted, "", "")
			return
		}
		p.become(pushOffered, reason, cause)
	})
}

func (p *push) endAchd() {
	if p.achd != nil {
		p.achd.Stop()
		p.achd = nil
	}
}

// reportedLock is the operator lock of a push's mirror, as the peer reported it last.
type reportedLock struct {
	wire.Holder
	at time.Duration // when the peer reported it
}

// generation returns the generation to offer, 0 if this host does not hold the lock.
func (t reportedLock) generation() uint64 {
	if !t.Yours {
		return 0
	}
	return t.Generation
}

// receiveHolder handles the peer's message about the holder of one of its channels. If this host holds the lock now, its
// pushes that waited for it are offered again.
func (n *Node) receiveHolder(l *link, m wire.Holder) {
	for _, p := range n.pushes.list {
		if p.Host != l.host || p.NameThere() != m.Channel {
			continue
		}
		p.lock = reportedLock{m, n.now()}
		if p.phase != pushRefused || p.cause != status.CauseOperator {
			continue
		}
		if m.Yours {
			p.renew(p.Push)
			n.loop.changed()
		} else {
			p.reason = lockText(l.host, m, wallTime())
		}
	}
	if m.ID != 0 {
		l.answered(m.ID, m)
	}
}
