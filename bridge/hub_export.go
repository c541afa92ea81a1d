package bridge

import (
	"errors"
	"fmt"

	"achbridge/bridge/rule"
	"achbridge/wire"
)

// hubRefuses says why l's peer cannot have a channel through the hub, nil if it can.
func (n *Node) hubRefuses(l *link, channel string, qos rule.QoS) error {
	if n.cfg.Hub == nil {
		return errors.New("this host uses no hub")
	}
	if qos.Mode == rule.Every {
		return fmt.Errorf("mode every needs a direct link to %s: a hub keeps the newest frame alone", n.cfg.Host)
	}
	p := n.puts[channel]
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.readers {
		if r.link == l {
			continue // of the peer itself
		}
		if qos.Class == rule.Command || r.granted.Class == rule.Command {
			return fmt.Errorf("%s reads it through the hub: commands go to one receiver alone there", r.link.host)
		}
	}
	return nil
}

// addHubExport serves an export through the hub. l.mu must be held.
func (l *link) addHubExport(x *export, c *local) {
	n, have, last := l.n, x.arrived, c.ch.LastSeq()
	x.book.Begin(x.epoch, have, last)
	p := n.puts[x.channel]
	if p == nil {
		loaded := last
		if have < last {
			loaded = last - 1 // the newest frame is owed to who begins
		}
		p = n.newPutter(c, loaded)
		n.puts[x.channel] = p
	}
	x.arrivals = p.arrivals
	p.join(l, x, have, last)
}

// admitOthers has l's peers ask again for a channel that was refused to them while another
// host received commands by it.
func (n *Node) admitOthers(channel string) {
	for _, l := range n.links {
		if l.overHub() && l.advertised.refused[channel] {
			l.advertised.admit(channel)
			n.changed = true
		}
	}
}

// namedNewest takes the origin's word on which frame is its newest.
func (n *Node) namedNewest(l *link, m wire.Newest) {
	if in := l.inbound(m.Sub); in != nil && in.pull != nil {
		in.pull.name(m.Seq)
	}
}

// pulledUpTo is the newest frame that came from the hub for our subscription id; 0: none did.
func (l *link) pulledUpTo(id uint32) uint64 {
	if in := l.inbound(id); in != nil && in.pull != nil {
		return in.pull.newest.Load()
	}
	return 0
}
