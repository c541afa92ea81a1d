package bridge

import (
	"context"
	"errors"
	"time"

	"achbridge/bridge/achdway"
	"achbridge/bridge/phases"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// pushAnswer is how long Push waits for the peer's answer.
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
	var late error // nil if the request waits, for the reason in the status
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
		return err // the answer came meanwhile
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
	n.loop.changed() // even if the channel is as it was
	if n.locals.Get(p.Channel) == nil {
		made.reply(nil) // nobody answers before there is a channel
	}
}

// offerPushes offers l's peer the pushes that were not offered to it yet.
func (n *Node) offerPushes(l *link) {
	for _, p := range n.pushes.due(l) {
		if err := n.machines.differs(l); err != nil {
			p.holdBack(l, err)
			continue
		}
		n.machines.use(l)
		l.queries.lastID++
		p.link, p.offerID = l, l.queries.lastID
		p.become(pushOffered, "", "")
		n.sendCatalog(l)
		l.send(wire.Offer{ID: p.offerID, Channel: p.Channel, As: p.NameThere(), QoS: p.QoS.Wire()})
		n.judgeExports(l) // a push that was changed may allow less
	}
}

// isMirror reports whether a channel is a mirror. Patterns do not push mirrors, so that frames
// of another host are not passed on by accident.
func (n *Node) isMirror(channel string) bool {
	c := n.locals.Get(channel)
	return n.mirrors.byName[channel] != nil || c != nil && c.IsMirror
}

// push is the request that a peer mirrors a channel of this host.
type push struct {
	rule.Push
	isAdded bool               // added by Node.Push: a new configuration ends it only by denying it
	link    *link              // on which it was offered last; nil without one
	achd    *achdway.Publisher // sends the channel in place of links; nil for none
	offerID uint32             // ID of the offer on that link
	phase   pushPhase
	reason  string // why it waits or was refused; empty if the phase is all there is to know
	cause   status.Cause
	waiters []chan error // calls of Node.Push that wait for the peer's answer; each with room for one
}

// pushPhase is how far a push has come.
type pushPhase uint8

const (
	pushUnoffered pushPhase = iota // it waits for a channel, a link or the right machine, or its quality of service has changed
	pushOffered                    // the peer has not answered
	pushAccepted
	pushRefused
)

// pushTransitions lists the phases that may follow each phase. There is no answer without an offer. A peer whose rules change answers
// once more, and an offer to a host with achd is made again and again.
var pushTransitions = phases.Transitions[pushPhase]{
	pushUnoffered: {pushOffered},
	pushOffered:   {pushAccepted, pushRefused, pushUnoffered},
	pushAccepted:  {pushOffered, pushRefused, pushUnoffered},
	pushRefused:   {pushOffered, pushAccepted, pushUnoffered},
}

// state returns the phase as a status has it.
func (p pushPhase) state() status.PushState {
	switch p {
	case pushAccepted:
		return status.PushAccepted
	case pushRefused:
		return status.PushRefused
	}
	return status.PushWaiting
}

// become moves the push to a phase, for a reason. An accepted push answers the calls of Node.Push that wait for it.
func (p *push) become(phase pushPhase, reason string, cause status.Cause) {
	if !pushTransitions.Move(&p.phase, phase) {
		return
	}
	p.reason, p.cause = reason, cause
	if phase == pushAccepted {
		p.reply(nil)
	}
}

// reply sends the answer to the calls of Node.Push that wait for it. It returns false if none does.
func (p *push) reply(err error) bool {
	waiters := p.waiters
	p.waiters = nil
	for _, c := range waiters {
		c <- err
	}
	return len(waiters) > 0
}

// renew makes the push be offered again by another quality of service. If it was refused, it grants nothing until then.
func (p *push) renew(with rule.Push) {
	if p.phase == pushRefused {
		p.link = nil
	}
	p.Push = with
	p.become(pushUnoffered, "", "")
}

// holdBack makes a push wait because its host runs on another machine than before, and reports that once.
func (p *push) holdBack(l *link, why error) {
	p.reply(nil)
	if p.cause == status.CauseOtherMachine {
		return
	}
	p.become(pushUnoffered, l.host+": "+why.Error(), status.CauseOtherMachine)
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
