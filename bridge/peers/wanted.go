package peers

import (
	"errors"
	"slices"
	"strings"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
)

// wanted reports whether the node has a reason to dial p: it is listed, or a rule names the host that p has
// proved or announces to be.
func (t *Table) wanted(p *peer, v View) bool {
	if p.Static || p.Asked || v.wants(p.Peer) {
		return true
	}
	if p.proof == nil {
		q := t.proved[p.node()]
		return q != nil && v.wants(q.Peer)
	}
	return t.mayBeUp(p, v) && slices.ContainsFunc(t.entriesOf(p), func(q *peer) bool { return q.Static || q.Asked })
}

// wants reports whether a rule names p's host, or that name with a part of the node's id after it, which a host gets
// when two have the same name.
func (v View) wants(p Peer) bool {
	return slices.ContainsFunc(v.Wanted, func(pattern string) bool {
		return rule.Match(pattern, p.Host) || isDistinctName(pattern, p.Host) ||
			p.Node != "" && rule.Match(pattern, longName(p.Host, p.Node[:min(len(p.Node), nameDigits)]))
	})
}

const (
	maxHostName = 63 // bytes
	nameDigits  = 4  // number of digits of a node's id after a name, if four make it differ
)

// DistinctName returns name with as many digits of a node's id after it as make it differ from the names in taken. Four
// digits may not do, since ids can be forged.
func DistinctName(name, node string, taken map[string]bool) string {
	digits := nameDigits
	for taken[longName(name, node[:digits])] && digits < len(node) {
		digits += nameDigits
	}
	return longName(name, node[:digits])
}

// longName returns a name with some digits of a node's id after it, shortened to maxHostName.
func longName(name, digits string) string {
	cut := name[:min(len(name), maxHostName-1-len(digits))]
	return strings.ToValidUTF8(cut, "") + "-" + digits
}

// isDistinctName reports whether long is the name short with a part of a node's id after it.
func isDistinctName(long, short string) bool {
	digits, ok := strings.CutPrefix(long, short+"-")
	return ok && len(digits) >= nameDigits && strings.Trim(digits, "0123456789abcdef") == ""
}

// isDialled reports whether p need not be dialled now, since another peer that is, or may be,
// the same node is being dialled, and only at addresses of p. So a node that is both listed
// and announced is dialled once. If that peer is dialled at other addresses too, p does not
// wait: otherwise a forged announcement with many addresses could delay it. If both are only announced, p waits only for a dial
// to the address at, even if both claim to be one node: a forged announcement with a robot's id must not delay the dial to the robot.
func (t *Table) isDialled(p *peer, at transport.Addrs) bool {
	if p.proof != nil {
		return false
	}
	for _, other := range t.entries {
		if other.dial == nil || other.Hub || p.Source != "" && other.Source != "" && !at.Equal(other.dial.Addrs[0]) || p.node() != "" && other.node() != "" && p.node() != other.node() {
			continue
		}
		if !slices.ContainsFunc(other.Addrs, func(a transport.Addrs) bool { return !p.lists(a) }) {
			return true
		}
	}
	return false
}

// ErrCopied is why a machine is not linked whose node id another machine has too.
var ErrCopied = errors.New("another machine with its node id is linked")

// dialAddrs returns the addresses at which to dial p. It leaves out those of transports that may not be used, the address where
// p's node has proved itself, which is dialled separately, addresses where a link shows another
// node, and the address of a copy of its node. If it leaves out all, err is the reason, nil if p is dialled as a proved peer.
func (t *Table) dialAddrs(p *peer, v View, proved []provedAt) (list []transport.Addrs, err error) {
	usable := t.usable(p, v)
	if len(usable) == 0 {
		return nil, t.noTransport(p, v)
	}
	for _, a := range usable {
		l := v.find(func(l *Link) bool { return !l.IsSilent && a.Overlaps(l.At) })
		if l != nil && p.node() != "" && p.node() != l.Node {
			err = AnswersThere(l.End)
			continue
		}
		if v.isCopyAt(p.node(), a) {
			err = ErrCopied
			continue
		}
		if p.proof == nil && isDialledAsProved(p, a, proved) {
			continue
		}
		list = append(list, a)
	}
	return list, err
}

// isCopyAt reports whether an address must not be dialled for the node with that id, since a copy of it is there.
func (v View) isCopyAt(node string, a transport.Addrs) bool {
	l := v.Linked[node]
	return l != nil && a.Overlaps(l.CopyAt)
}

// provedAt is a node that is dialled at the addresses where it has proved itself.
type provedAt struct {
	node  string
	addrs []transport.Addrs
}

// awaited returns the proved nodes that are dialled. They are collected once for all
// peers: anybody can announce thousands of hosts, and each of those is compared only with these few.
func (t *Table) awaited(v View) (list []provedAt) {
	for id, p := range t.proved {
		if !t.mayBeUp(p, v) || !t.wanted(p, v) {
			continue
		}
		usable := t.usable(p, v)
		restricted := func(a transport.Addrs) bool { return !slices.ContainsFunc(usable, a.Equal) }
		list = append(list, provedAt{id, slices.DeleteFunc(slices.Clone(p.Addrs), restricted)})
	}
	return list
}

// isDialledAsProved reports whether a is the address where p's node has proved itself.
func isDialledAsProved(p *peer, a transport.Addrs, proved []provedAt) bool {
	return slices.ContainsFunc(proved, func(q provedAt) bool {
		return (p.node() == "" || p.node() == q.node) && slices.ContainsFunc(q.addrs, a.Equal)
	})
}
