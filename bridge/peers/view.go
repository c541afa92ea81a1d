package peers

import (
	"slices"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/via"
)

// MaxLinks bounds the links of a node. Listed peers are linked beyond it.
const MaxLinks = 128

// View is the state of the node that the table decides by. It is valid during one call.
type View struct {
	Linked    map[string]*Link // the links, by node id
	Answering []End            // standby links that this node has dialled, if the peer's Hello may still be on its way
	Wanted    []string         // patterns of the hosts that mirrors and pushes name
	Over      []Choice         // the first choice that matches counts
}

// Choice limits the links with the hosts of a pattern to one transport.
type Choice struct {
	Host string
	Over via.Kind
}

// End is the other end of a session, as its certificate proves it.
type End struct {
	Node    string // its id in hex
	Host    string
	At      transport.Addrs // only the address of the session
	Via     via.Kind        // the session's transport
	Dialled bool            // whether this node has dialled
}

// Link is a link to a peer. The node updates it before each call. Two links are the same if their pointers are.
type Link struct {
	End
	Name         string // the peer's name on this host
	Network      string // the network of the key by which the peer has proved itself
	UpAt         time.Duration
	IsSilent     bool
	SilentSince  time.Duration
	HeardAt      time.Duration // when the last packet of any kind arrived
	RTT          time.Duration
	OnTrial      bool            // whether the link began as a trial of another way
	WrongMachine bool            // whether the peer's machine is not the one to which commands went
	CopyAt       transport.Addrs // address of another machine with the peer's node id; zero without one, or if the link is gone
}

func (e End) isByHub() bool { return e.Via == via.Hub }

// over returns the transport that the node's rules choose for a host.
func (v View) over(host string) via.Kind {
	for _, c := range v.Over {
		if c.Over != via.Any && host != "" && rule.Match(c.Host, host) {
			return c.Over
		}
	}
	return via.Any
}

// find returns a link for which is returns true, nil for none.
func (v View) find(is func(*Link) bool) *Link {
	for _, l := range v.Linked {
		if is(l) {
			return l
		}
	}
	return nil
}

// linkTo returns the link to the node that p is, nil when there is none.
func (v View) linkTo(p *peer) *Link {
	if id := p.node(); id != "" {
		return v.Linked[id]
	}
	return v.find(func(l *Link) bool { return p.lists(l.At) })
}

// linkOf returns the link to the host that has proved to have that name, nil for none.
func (v View) linkOf(host string) *Link {
	return v.find(func(l *Link) bool { return l.Host == host })
}

// isAnswering reports whether a dial to p has succeeded and the Hello of the peer can still be on its way.
func (v View) isAnswering(p *peer) bool { return slices.ContainsFunc(v.Answering, p.isAt) }
