package bridge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"achbridge/bridge/layouts"
	"achbridge/bridge/logline"
	"achbridge/bridge/peers"
	"achbridge/bridge/phases"
	"achbridge/bridge/send"
	"achbridge/bridge/status"
	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
	"achbridge/wire"
)

// link is the authenticated association with one peer. Two goroutines serve its control stream, and
// three its frames (frames); a link through the hub has only the former two.
type link struct {
	n      *Node
	s      *session.Session
	peer   trust.NodeID
	host   string // the peer's name
	cancel context.CancelCauseFunc
	frames *send.Link // carries frames, except through the hub
	out    *controlQueue

	// The fields below belong to the node's goroutine.
	lifecycle lifecycle
	hello     hello
	dial      dialState
	catalog   catalog
	inbound   map[uint32]*inbound // our subscriptions
	exports   exports             // the peer's subscriptions
	queries   linkQueries
	offers    offers
	warned    warned
	path      pathState
	layouts   layoutState
	silence   silence
	markedAt  time.Duration // when the packets got a DSCP, by Node.now; 0 while they have none
}

// lifecycle has the phase of a link.
type lifecycle struct {
	phase    linkPhase
	upAt     time.Duration // when the link was made
	promoted chan struct{} // closed when this link is the peer's active link, and no longer a spare
}

// linkPhase is the phase of a link.
type linkPhase int

const (
	linkStandby linkPhase = iota // the link is new or a standby
	linkLive                     // the link is the one in use for its peer
	linkSilent                   // like linkLive, but no packets arrive although some are due
	linkEnded
)

var linkTransitions = phases.Transitions[linkPhase]{
	linkStandby: {linkLive, linkEnded},
	linkLive:    {linkSilent, linkEnded},
	linkSilent:  {linkLive, linkEnded},
}

func (l *link) move(to linkPhase) { linkTransitions.Move(&l.lifecycle.phase, to) }

// isInSilence reports whether the node has found the link silent.
func (l *link) isInSilence() bool { return l.lifecycle.phase == linkSilent }

// hello has the facts that the two ends exchange in Hello and in lists of revocations.
type hello struct {
	isSent     bool
	isReceived bool
	run        uint64        // incarnation of the peer's daemon
	machine    Machine       // the peer's machine
	start      time.Duration // CLOCK_MONOTONIC of the peer's host when its node started; 0 if the peer does not send it
	knowsLocks bool          // the peer knows operator locks
	knowsEdits bool          // the peer knows wire.Edit
	listNumber uint64        // number of the newest list of revocations that the peer is known to have
}

// dialState has the facts about the link that dials to the peer depend on.
type dialState struct {
	trial *peers.Trial // set for a spare on trial, and for the link that it becomes
	why   string       // why the link does not move to another route, for users; empty if unknown
	entry *peers.Link  // entry in the table of peers, made by known
}

// catalog has the channels that both ends advertise.
type catalog struct {
	remote remoteCatalog
	sent   advertisedChannels
}

// linkQueries matches messages of this host with their answers, by id.
type linkQueries struct {
	lastID  uint32
	answers map[uint32]chan wire.Message // where calls of Ask, LoadTest and request wait for an answer, by id
}

// offers has the pushes of the peer.
type offers struct {
	accepted     []pushed
	refused      []wire.Offer  // denied by our rules
	lockRequests logline.Limit // limits requests that change operator locks
	edits        logline.Limit // limits requests that change fields of frames
}

// warned limits warnings about the peer.
type warned struct {
	full   bool // a warning that the limit of mirrors is reached was logged
	narrow bool // a warning that only small packets arrive was logged
	limit  warner
}

// pathState has the facts about the path that the two ends exchange.
type pathState struct {
	inbound *wire.Path // the peer's last facts about the path from it to us; nil before the first
	sent    sentPath
	stamps  hubStamps // used over the hub
}

// layoutState limits the requests and answers about layouts.
type layoutState struct {
	requests *layouts.Requests
	answers  layouts.AnswerLimit
}

// newLink makes a link of a session with host. The link is idle until serve.
func (n *Node) newLink(s *session.Session, host string) *link {
	l := &link{
		n: n, s: s, peer: s.Peer().Node, host: host, lifecycle: lifecycle{upAt: n.now(), promoted: make(chan struct{})}, silence: silence{receivedAt: n.now()}, out: newControlQueue(),
		catalog: catalog{sent: advertisedChannels{endedSubs: make(map[string][]uint32), refused: make(map[string]bool)}},
		queries: linkQueries{answers: make(map[uint32]chan wire.Message)},
		offers:  offers{lockRequests: logline.Limit{Burst: 10, Period: time.Second / 2}, edits: logline.Limit{Burst: 10, Period: time.Second / 10}},
		layouts: layoutState{answers: layouts.NewAnswerLimit()}, warned: warned{limit: n.newWarner()},
		inbound: make(map[uint32]*inbound), exports: exports{byID: make(map[uint32]*export)},
	}
	l.layouts.requests = layouts.NewRequests(&n.layouts, l.describeChannel)
	l.frames = send.NewLink(send.Config{
		Session: s, Host: host, Source: n.cfg.Source, Clock: n.clocks.ring, Suspended: n.clocks.mirror.Suspended, Copying: &n.shared.copying, Spawn: n.loop.work.Go, Log: n.cfg.Log, Control: n.cfg.testing.control,
		Unsendable: func(channel string, err error) {
			n.loop.post(func() { l.refusal("frames cannot be sent", status.Event{Channel: channel, Text: err.Error()}) })
		},
	}, l.lifecycle.upAt)
	return l
}

// sayHello sends Hello, unless it was already sent on this link.
func (l *link) sayHello() {
	if l.hello.isSent {
		return
	}
	l.hello.isSent = true
	cfg := l.n.cfg
	l.send(wire.Hello{Version: wire.Version, Host: cfg.Host, Node: cfg.Node, Run: l.n.run, Machine: cfg.Machine.Hardware, Boot: cfg.Machine.Boot, Start: l.n.clocks.mirror.At, Locks: true, Edits: true})
}

// serve starts the link's goroutines.
func (l *link) serve() {
	// The end of the node's context does not end the link, so that a Bye can still be sent.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(l.n.loop.ctx))
	l.cancel = cancel
	serving := []func(context.Context) error{l.readControl, l.writeControl, l.frames.Receive, l.frames.Send, l.frames.ReceiveStreams}
	if l.overHub() {
		serving = serving[:2]
	}
	for _, f := range serving {
		l.n.loop.work.Go(func() {
			cancel(f(ctx))
			cause := context.Cause(ctx) // the error of the goroutine that ended first
			l.s.Close(lastWord(cause))
			l.n.loop.post(func() { l.n.linkDown(l, cause) })
		})
	}
}

// take makes l, which is being served, the active link to its peer.
func (n *Node) take(l *link) {
	l.sayHello()
	if n.spares[l.standbyKey()] == l {
		delete(n.spares, l.standbyKey())
	}
	l.move(linkLive)
	if old := n.links[l.peer]; old != nil {
		n.machines.replaced(old, l)
		n.drop(old, errors.New("a newer link takes its place"))
	}
	n.links[l.peer] = l
	n.peers.Linked(n.now(), l.known(), n.view())
	n.machines.pin(l, n.cfg.Endpoint.NamesBind())
	if l.hello.isReceived {
		n.machines.recognize(l)
	}
	n.events.Record(slog.LevelInfo, "link up", status.Event{Kind: status.EventLinkUp, Host: l.host, Text: "over " + l.s.Transport().String() + " with " + l.s.RemoteAddr().String()},
		"node", l.peer.String(), "addr", l.s.RemoteAddr().String(), "dialled", l.s.Dialled())
	close(l.lifecycle.promoted)
	n.loop.changed()
}

// linkDown removes a link. If the peer has a spare, the spare becomes the link. The goroutines of
// the removed link end on their own.
func (n *Node) linkDown(l *link, cause error) {
	switch l.lifecycle.phase {
	case linkLive, linkSilent:
		n.drop(l, cause)
		if spares := n.standbysOf(l.peer); len(spares) > 0 {
			n.take(spares[0])
		}
	case linkStandby:
		n.dropStandby(l, cause)
	}
}

// drop removes a link.
func (n *Node) drop(l *link, cause error) {
	delete(n.links, l.peer)
	l.cancel(cause)
	word := lastWord(cause)
	n.loop.work.Go(func() { l.s.Close(word) })
	if err := l.s.Err(); err != nil && !errors.Is(cause, errBye) && word == "" && !closedByUs(err) {
		cause = err // the session's error is more precise than that of the goroutine that ended first
	}
	n.events.Record(slog.LevelInfo, "link down", status.Event{Kind: status.EventLinkDown, Host: l.host, Text: cause.Error()}, "err", cause)
	closed, ok := errors.AsType[*session.CloseError](cause)
	saidGoodbye := ok && closed.Remote || errors.Is(cause, errBye)
	n.peers.Unlinked(n.now(), l.known(), peers.LinkEnd{Greeted: l.hello.isReceived, SaidGoodbye: saidGoodbye, TimedOut: errors.Is(cause, session.ErrSilent), Cause: cause})
	for id, in := range l.inbound {
		m := in.m
		l.endInbound(id)
		m.origin.Layout = l.catalog.remote.channels[m.Channel].Layout // the mirror uses this layout while there is no link
		m.unbind(status.CausePeerMissing, "no link to "+l.host)
	}
	l.exports.dropAll()
	l.layouts.requests.Close()
	n.pushes.unlink(l)
	l.move(linkEnded)
	n.loop.changed()
}

// closedByUs reports whether err means that this host closed the session.
func closedByUs(err error) bool {
	closed, ok := errors.AsType[*session.CloseError](err)
	return ok && !closed.Remote
}

// notify wakes the goroutine that waits on c, or the next one that will wait.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// hostName returns the name of a new session's peer on this host. This is the name in the peer's
// certificate, even if the peer is listed or announced under another name. Where certificates do
// not bind names, two linked hosts may have the same name, and this host counts as one of them.
// Then a part of its id is appended to the name of the node with the higher id. A silent link,
// however, loses its name to the new peer.
func (n *Node) hostName(s *session.Session) string {
	id, name := s.Peer().Node, s.Peer().Host
	distinct := func() string {
		taken := map[string]bool{n.cfg.Host: true}
		for _, other := range n.links {
			taken[other.host] = taken[other.host] || other.peer != id
		}
		return peers.DistinctName(name, id.String(), taken)
	}
	if n.cfg.Endpoint.NamesBind() {
		return name
	}
	for _, other := range n.links {
		if other.host != name || other.peer == id {
			continue
		}
		if other.isSilent() {
			n.endLinks(other, errors.New("its host is node "+id.String()+" now"))
			continue
		}
		n.cfg.Log.Warn("two hosts have the same name, start one with another --name", "peer", name, "node", id.String(), "other", other.peer.String())
		if other.peer.Less(id) {
			return distinct()
		}
		n.endLinks(other, errors.New("it comes back under a name of its own"))
	}
	if name == n.cfg.Host {
		n.cfg.Log.Warn("a linked host has the name of this host, start one with another --name", "peer", name, "node", id.String())
		if n.cfg.Node.Less(id) {
			return distinct()
		}
	}
	return name
}

// endLinks ends a link and its spares.
func (n *Node) endLinks(l *link, cause error) {
	for _, standby := range n.standbysOf(l.peer) {
		n.dropStandby(standby, cause)
	}
	n.linkDown(l, cause)
}
