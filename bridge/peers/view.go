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

// View is what the table has to know of its node. It is valid during one call.
type View struct {
	Linked map[string]*Link // by node id
	// Answering are sessions that this node has dialled for a standby link, and whose Hello may still be on its way.
	Answering []End
	Wanted    []string // patterns of the hosts that mirrors and pushes name
	Over      []Choice // the first that matches counts
}

// Choice is the only transport that links with the hosts of a pattern may use.
type Choice struct {
	Host string
	Over via.Kind
}

// End is the other end of a session, as its certificate proves it.
type End struct {
	Node    string // its id in hex
	Host    string
	At      transport.Addrs // its one address
	Via     via.Kind        // the session's transport
	Dialled bool            // this node has dialled
}

// Link is a link to a peer. The node updates it before each call. The pointer identifies it.
type Link struct {
	End
	Name         string // of the peer on this host
	Network      string // of the key by which the peer has proved itself
	UpAt         time.Duration
	IsSilent     bool
	SilentSince  time.Duration
	RTT          time.Duration
	OnTrial      bool            // it began as a trial of another way
	WrongMachine bool            // the peer's machine is not the one to which commands went
	CopyAt       transport.Addrs // where a copy of the peer was heard; zero without one, or when nothing is heard on the link
}

func (e End) isByHub() bool { return e.Via == via.Hub }

// over returns the transport that the node's rules choose for a host.
func (v View) over(host string) via.Kind {
	for _, c := range v.Over {
		if host != "" && rule.Match(c.Host, host) {
			return c.Over
		}
	}
	return via.Any
}

// linkTo returns the link to the node that p is, nil when there is none.
func (v View) linkTo(p *peer) *Link {
	if id := p.node(); id != "" {
		return v.Linked[id]
	}
	for _, l := range v.Linked {
		if p.lists(l.At) {
			return l
		}
	}
	return nil
}

// linkAt returns a link to an address whose peer is heard, nil for none.
func (v View) linkAt(a transport.Addrs) *Link {
	for _, l := range v.Linked {
		if !l.IsSilent && a.Overlaps(l.At) {
			return l
		}
	}
	return nil
}

// linkOf returns the link to the host that has proved to have that name, nil for none.
func (v View) linkOf(host string) *Link {
	for _, l := range v.Linked {
		if l.Host == host {
			return l
		}
	}
	return nil
}

// isAnswering reports whether a dial to p has succeeded and the Hello of the peer can still be on its way.
func (v View) isAnswering(p *peer) bool { return slices.ContainsFunc(v.Answering, p.isAt) }
