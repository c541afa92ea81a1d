package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"achbridge/bridge/achd"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// achdPush sends a channel of this host to one that has achd and no achbridge, over a connection of its own. It belongs
// to the node's goroutine.
type achdPush struct {
	qos    rule.QoS
	stop   context.CancelFunc
	failed string // what the log has said of it; empty: all is well
}

// pushByAchd makes what is pushed by achd's protocol agree with the wishes that say so.
func (n *Node) pushByAchd() {
	for _, p := range n.pushes {
		if !rule.IsAchd(p.Host) {
			continue
		}
		n.warnAchd()
		c := n.locals[p.Channel]
		usable := c != nil && c.ch != nil
		if p.achd != nil && (!usable || p.achd.qos != p.QoS) {
			p.endAchd()
			p.state, p.reason, p.cause = status.PushWaiting, "", ""
		}
		if usable && p.achd == nil {
			n.beginAchdPush(p)
		}
	}
}

func (p *push) endAchd() {
	if p.achd != nil {
		p.achd.stop()
		p.achd = nil
	}
}

func (n *Node) beginAchdPush(p *push) {
	to, err := rule.ParseAchd(p.Host)
	if err != nil {
		p.state, p.reason, p.cause = status.PushRefused, err.Error(), status.CauseRule // rules are checked before
		return
	}
	ctx, stop := context.WithCancel(n.ctx)
	p.achd = &achdPush{qos: p.QoS, stop: stop}
	p.state, p.reason = status.PushWaiting, fmt.Sprintf("connecting to achd at %s, port %s", to.Host, to.Port)
	remote := achd.Remote{
		Host: to.Host, Port: to.Port, Channel: p.NameThere(), UDP: to.UDP, Dial: n.cfg.dialAchd,
		Newest: p.QoS.Mode == rule.Newest, Period: p.QoS.MaxRate.Interval(),
	}
	a, channel := p.achd, p.Channel
	n.work.Go(func() { n.keepPushing(ctx, p, a, channel, remote) })
}

// keepPushing connects again and again until ctx ends.
func (n *Node) keepPushing(ctx context.Context, p *push, a *achdPush, channel string, remote achd.Remote) {
	n.keepConnecting(ctx, func() (up time.Duration, err error) {
		err = n.pushOnce(ctx, channel, remote, func() {
			up = n.now()
			n.call(func() { n.achdTakes(p, a) })
		})
		return up, err
	}, func(err error) { n.achdTakesNot(p, a, err) })
}

func (n *Node) pushOnce(ctx context.Context, channel string, remote achd.Remote, begun func()) error {
	ch, err := n.cfg.Dir.TryOpen(channel)
	if err != nil {
		return err
	}
	defer ch.Close()
	return remote.Push(ctx, achd.Outgoing{
		Channel: ch, NewData: n.cfg.Source.NewData, Begun: begun, May: func() error { return n.mayPushByAchd(channel) },
	})
}

// mayPushByAchd says why a channel may not be pushed by achd's protocol. What comes by it does not go back by it: the
// frames would go round for ever.
func (n *Node) mayPushByAchd(channel string) (err error) {
	if n.CarriesCommands(channel) {
		return errAchdCommand
	}
	n.call(func() {
		if m := n.mirrors[channel]; n.ending[channel] || m != nil && m.achd != nil {
			err = errAchdEcho
		}
	})
	return err
}

var (
	errAchdCommand = errors.New("it carries commands, which achd cannot carry")
	errAchdEcho    = errors.New("it comes by achd itself, and would go round for ever")
)

// achdTakes handles that the host takes the frames from now on.
func (n *Node) achdTakes(p *push, a *achdPush) {
	if p.achd != a {
		return
	}
	n.log.Info("achd's host takes a channel", "peer", p.Host, "channel", p.Channel)
	p.state, p.reason, p.cause, a.failed = status.PushAccepted, "", "", ""
	p.reply(nil)
}

// achdTakesNot handles the end of a connection, or that there was none.
func (n *Node) achdTakesNot(p *push, a *achdPush, err error) {
	if p.achd != a {
		return
	}
	text, cause := "achd there: "+err.Error(), causeOf(err)
	switch {
	case errors.Is(err, errAchdCommand), errors.Is(err, errAchdEcho):
		text, cause = err.Error(), status.CauseRule
	case errors.Is(err, achd.ErrRefused):
		cause = status.CauseAcceptRule
	case cause == status.CauseOther:
		cause = status.CausePeerSilent
	}
	if a.failed != text {
		n.warn(&n.warnings, "achd's host does not take a channel; it is asked again and again",
			status.Event{Kind: status.EventPeerUnreachable, Host: p.Host, Channel: p.Channel, Text: text}, "err", err)
	}
	a.failed = text
	p.state, p.reason, p.cause = status.PushWaiting, text, cause
}
