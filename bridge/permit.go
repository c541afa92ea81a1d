package bridge

import (
	"fmt"

	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// permitted is the quality of service that a peer requested, and the one that it was granted.
type permitted struct{ requested, granted rule.QoS }

// permit returns the quality of service with which l's peer may read a channel, or the reason why
// it may not. Commands go only to the machine that they went to before (machineTable.differs).
func (n *Node) permit(l *link, channel string, asked rule.QoS) (rule.QoS, error) {
	granted, err := n.granted(l, channel, asked)
	if err == nil && granted.Class == rule.Command {
		err = n.machines.differs(l)
	}
	return granted, err
}

// granted returns the quality of service with which the rules let l's peer read a channel, on any
// machine. The peer may always read a channel that this node pushes to it, within the limits of
// the push.
func (n *Node) granted(l *link, channel string, asked rule.QoS) (rule.QoS, error) {
	if p := n.pushes.to(l, channel); p != nil {
		return rule.Grant{QoS: p.QoS, From: p.From}.Limit(asked)
	}
	if err := n.cfg.Export.Denied(channel, l.host); err != nil {
		return rule.QoS{}, err
	}
	if c := n.locals.Get(channel); c != nil && c.IsMirror {
		return asked, nil // a relay rule allows it
	}
	found, err := n.cfg.Export.For(channel, l.host)
	if err != nil {
		return rule.QoS{}, err
	}
	return found.Limit(asked)
}

// forbid refuses a subscription of the peer and sends the reason.
func (l *link) forbid(id uint32, channel string, cause error) {
	l.catalog.sent.refused[channel] = true
	l.refusal("subscription of a peer refused", status.Event{Channel: channel, Text: cause.Error()})
	l.send(wire.Refused{ID: id, Re: wire.TypeSubscribe, Code: codeOf(cause), Text: wire.Text(forbidden(l, channel, cause))})
}

// Apply replaces Export, Relay, Accept, Adopt, Mirrors, Muxes, Pushes, Layouts, NoLoadTest and NoDSCP by
// those of cfg, as if the node had been started with them. The other settings stay. Mirrors and pushes
// added by Mirror and Push stay too, unless a rule of cfg denies them. A denied push is dropped; a
// denied mirror ends until no rule denies it. Subscriptions that cfg does not affect are not
// interrupted. On an error nothing changes.
func (n *Node) Apply(cfg Config) error {
	cfg.Host = n.cfg.Host // the host name never changes
	if err := cfg.check(); err != nil {
		return err
	}
	cfg.settle()
	return n.loop.change(func() error {
		added := n.requests.addedMuxes
		for i, m := range added {
			if err := m.CheckAmong(append(cfg.Muxes.Without(m.Output), added[:i]...), cfg.Mirrors, cfg.Accept); err != nil {
				return fmt.Errorf("mux %s, which a command has added: %w", m.Output, err)
			}
		}
		n.apply(cfg)
		return nil
	})
}

func (n *Node) apply(cfg Config) {
	n.cfg.Export, n.cfg.Relay, n.cfg.Accept = cfg.Export, cfg.Relay, cfg.Accept
	n.requests.rules, n.requests.muxRules, n.cfg.NoLoadTest = cfg.Mirrors, cfg.Muxes, cfg.NoLoadTest
	n.cfg.Layouts, n.cfg.ForgetAfter, n.cfg.NoDSCP = cfg.Layouts, cfg.ForgetAfter, cfg.NoDSCP
	n.pushes.plan(cfg.Pushes)
	for name := range n.locals.All() {
		n.localChanged(name)
	}
	n.mirrors.setAdopt(cfg.Adopt)
	for _, m := range n.mirrors.byName {
		if m.link == nil {
			m.retry = 0
		}
	}
	for _, l := range n.links {
		n.judgeExports(l)
		n.judgePushes(l)
	}
	n.checkLocks()
	n.endUnpermitted()
}

// judgeExports applies changed rules to the subscriptions of l's peer, including refused ones.
func (n *Node) judgeExports(l *link) {
	for channel := range l.catalog.sent.refused {
		if _, err := n.permit(l, channel, rule.QoS{}); err == nil {
			l.catalog.sent.admit(channel)
		}
	}
	for id, x := range l.exports.byID {
		granted, err := n.permit(l, x.channel, x.requested)
		if err != nil {
			l.exports.drop(id)
			l.forbid(id, x.channel, err)
		} else if granted != x.qos {
			x.requalify(permitted{x.requested, granted})
		}
	}
}

// CarriesCommands reports whether a rule, a mirror or a peer treats a channel of this host as
// class command. Other protocols must not carry such a channel, since only a dated frame of an
// authenticated sender may be put.
func (n *Node) CarriesCommands(channel string) (yes bool) {
	n.loop.call(func() { yes = n.hasCommands(channel) })
	return yes
}

func (n *Node) hasCommands(channel string) bool {
	if _, g, ok := n.cfg.Accept.About(channel); ok && g.QoS.Class == rule.Command {
		return true
	}
	if m := n.mirrors.byName[channel]; m != nil {
		if w, ok := n.requests.find(m.Host, m.Channel); ok && w.QoS.Class == rule.Command {
			return true
		}
	}
	for _, l := range n.links {
		if l.exports.hasCommands(channel) {
			return true
		}
	}
	return n.pushes.any(func(p *push) bool { return p.Channel == channel && p.QoS.Class == rule.Command })
}

// Claim lets another program write into a channel of this host until release is called. The
// channel must be a mirror of ours by its tag, or one that adopt names. Meanwhile no mirror takes
// the name. The error is the reason why the program may not write.
func (n *Node) Claim(channel string, tag localach.Tag) (release func(), err error) {
	ran := n.loop.call(func() {
		_, meta := mirror.MetaOf(channel, tag)
		m := n.mirrors.byName[channel]
		switch {
		case n.mirrors.isOutput(channel):
			err = fmt.Errorf("%s is the output of a mux", channel)
		case n.lockRule(channel) != nil:
			err = fmt.Errorf("%s has an operator lock, which programs of achd cannot hold", channel)
		case m != nil:
			err = fmt.Errorf("%s is a mirror that %s writes", channel, m.Host)
		case n.mirrors.reserved[channel]:
			err = fmt.Errorf("%s already has a writer", channel)
		case meta || tag == (localach.Tag{}) && !rule.Matches(n.mirrors.adopt, channel):
			err = fmt.Errorf("%s is not a mirror, and adopt does not name it", channel)
		default:
			n.mirrors.take(channel)
		}
	})
	if !ran {
		err = errEnded
	}
	if err != nil {
		return nil, err
	}
	return func() { n.loop.post(func() { n.mirrors.release(channel); n.loop.changed() }) }, nil
}
