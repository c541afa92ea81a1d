package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"achbridge/bridge/fresh"
	"achbridge/bridge/transport"
	"achbridge/localach"
	"achbridge/wire"
)

// link is the authenticated association with one peer. Four goroutines serve
// it: hear and tell for the control stream, receive for what comes in as
// datagrams, pump for what goes out.
type link struct {
	n      *Node
	s      *transport.Session
	peer   transport.NodeID
	host   string // the peer's name
	up     time.Duration
	cancel context.CancelFunc
	wake   chan struct{} // the pump has something to look at

	// These belong to the node's goroutine.
	greeted bool
	catalog map[string]wire.Channel // what the peer offers; nil before its first catalog
	told    map[string]wire.Channel // what the peer knows of ours; nil before the first
	offered map[string]bool         // channels that a push lets the peer read
	subs    map[uint32]*mirror      // our subscriptions
	lastID  uint32
	pushed  []Mirror // wishes that the peer's pushes made here

	outMu sync.Mutex
	out   [][]byte // control messages not written yet
	outB  int
	last  bool // the last of out is a Bye
	outUp chan struct{}
	said  chan struct{} // closed when a Bye has been written

	mu       sync.Mutex // guards the rest: what pump and receive share
	exports  map[uint32]*export
	order    []*export // the same, in the order in which they take turns
	flight   fresh.Flight
	receipts fresh.Receipts
	clock    fresh.Clock
	pacer    fresh.Pacer
	held     bool // it is the pacer, not the transport, that frames wait for

	inMu    sync.RWMutex
	imports map[uint32]*inbound
}

const (
	maxControlBacklog = 4 << 20 // bytes a peer may leave unread before the link ends
	byeTimeout        = 300 * time.Millisecond
)

// linkUp starts a link over a new session, unless the peer already has a
// better one: of two links between two nodes the one that the node with the
// lower id dialled stays; of two dialled by the same node the newer one.
func (n *Node) linkUp(s *transport.Session) {
	id := s.Peer().Node
	if old := n.links[id]; old != nil {
		if dialler(n.cfg.Node, old) != dialler(n.cfg.Node, &link{s: s, peer: id}) && dialler(n.cfg.Node, old) == lower(n.cfg.Node, id) {
			n.work.Go(func() { s.Close("there is a link already") })
			return
		}
		n.linkDown(old, errors.New("a newer link takes its place"))
	}
	ctx, cancel := context.WithCancel(n.ctx)
	l := &link{
		n: n, s: s, peer: id, host: n.hostName(s), up: n.now(), cancel: cancel,
		wake: make(chan struct{}, 1), outUp: make(chan struct{}, 1), said: make(chan struct{}),
		offered: make(map[string]bool), subs: make(map[uint32]*mirror),
		exports: make(map[uint32]*export), imports: make(map[uint32]*inbound),
	}
	n.links[id] = l
	n.log.Info("link up", "peer", l.host, "node", id.String(), "addr", s.RemoteAddr().String(), "dialled", s.Dialled())
	l.send(wire.Hello{Version: wire.Version, Host: n.cfg.Host, Node: n.cfg.Node, Run: n.run})
	for _, f := range []func(context.Context) error{l.hear, l.tell, l.receive, l.pump} {
		n.work.Go(func() {
			err := f(ctx)
			cancel()
			s.Close("")
			n.post(func() { n.linkDown(l, err) })
		})
	}
	n.changed = true
}

// hostName is how the operator knows the peer: discovery's name for this node
// if there is one, else its own. Of two hosts of one name the node with the
// higher id gets a part of its id behind the name.
func (n *Node) hostName(s *transport.Session) string {
	id := s.Peer().Node
	if p := n.peers[id.String()]; p != nil && p.Host != "" {
		return p.Host
	}
	name := s.Peer().Host
	for _, other := range n.links {
		if other.host != name || other.peer == id {
			continue
		}
		n.log.Warn("two hosts have the same name; start one with another --name", "peer", name, "node", id.String(), "other", other.peer.String())
		if lower(id, other.peer) == id {
			n.linkDown(other, errors.New("it comes back under a name of its own"))
			return name
		}
		return name + "-" + id.String()[:4]
	}
	return name
}

func dialler(self transport.NodeID, l *link) transport.NodeID {
	if l.s.Dialled() {
		return self
	}
	return l.peer
}

func lower(a, b transport.NodeID) transport.NodeID {
	if a.String() < b.String() {
		return a
	}
	return b
}

// linkDown forgets a link; its goroutines end by themselves.
func (n *Node) linkDown(l *link, cause error) {
	if n.links[l.peer] != l {
		return
	}
	delete(n.links, l.peer)
	l.cancel()
	n.work.Go(func() { l.s.Close("") })
	if err := l.s.Err(); err != nil && !errors.Is(cause, errBye) {
		cause = err // it knows more than who was disturbed first
	}
	n.log.Info("link down", "peer", l.host, "err", cause)
	if closed, ok := errors.AsType[*transport.CloseError](cause); ok && closed.Remote || errors.Is(cause, errBye) {
		n.leaving(l.peer)
	}
	for _, m := range l.subs {
		m.unbind("no link to " + l.host)
	}
	l.dropAllExports()
	for _, p := range n.pushes {
		p.linkDown(l)
	}
	n.changed = true
}

// bye tells the peer that we leave and waits a moment until it is written.
func (l *link) bye(reason string) {
	l.send(wire.Bye{Reason: reason})
	t := time.NewTimer(byeTimeout)
	defer t.Stop()
	select {
	case <-l.said:
	case <-l.s.Done():
	case <-t.C:
	}
	l.s.Close(reason)
}

// send queues a control message. It never blocks; a peer that does not read
// loses its link.
func (l *link) send(m wire.Message) {
	b, err := wire.AppendMessage(nil, m)
	if err != nil {
		l.n.log.Error("control message cannot be sent", "peer", l.host, "err", err)
		return
	}
	l.outMu.Lock()
	l.out = append(l.out, b)
	l.outB += len(b)
	_, bye := m.(wire.Bye)
	l.last = l.last || bye
	full := l.outB > maxControlBacklog
	l.outMu.Unlock()
	if full {
		l.cancel() // its goroutines end and with them the link
		return
	}
	notify(l.outUp)
}

// tell writes queued control messages until the link ends.
func (l *link) tell(ctx context.Context) error {
	for {
		l.outMu.Lock()
		out, last := l.out, l.last
		l.out, l.outB = nil, 0
		l.outMu.Unlock()
		for _, b := range out {
			if _, err := l.s.Control().Write(b); err != nil {
				return fmt.Errorf("control stream: %w", err)
			}
		}
		if last {
			close(l.said)
			return nil
		}
		if out != nil {
			continue
		}
		select {
		case <-l.outUp:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hear reads control messages and hands them to the node's goroutine.
func (l *link) hear(ctx context.Context) error {
	var head [4]byte
	for {
		if _, err := io.ReadFull(l.s.Control(), head[:]); err != nil {
			return fmt.Errorf("control stream: %w", err)
		}
		size, err := wire.MessageSize(head)
		if err != nil {
			return err
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(l.s.Control(), body); err != nil {
			return fmt.Errorf("control stream: %w", err)
		}
		m, err := wire.ParseMessage(body)
		if err != nil {
			return err
		}
		done := make(chan error, 1)
		l.n.post(func() { done <- l.n.handle(l, m) })
		// One message at a time: a peer cannot fill the node's queue.
		select {
		case err = <-done:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.n.ended:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// dropExports ends the peer's subscriptions to a channel.
func (l *link) dropExports(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, e := range l.exports {
		if e.channel == channel {
			l.dropExport(id)
		}
	}
}

func (l *link) dropAllExports() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.exports {
		l.dropExport(id)
	}
}

// dropExport needs l.mu.
func (l *link) dropExport(id uint32) {
	e := l.exports[id]
	if e == nil {
		return
	}
	delete(l.exports, id)
	for i := range l.order {
		if l.order[i] == e {
			l.order = append(l.order[:i:i], l.order[i+1:]...)
			break
		}
	}
	e.stop()
}

// addExport starts a subscription of the peer, in place of one with the same id.
func (l *link) addExport(id uint32, ch *localach.Channel, haveSeq uint64) *export {
	e := newExport(id, ch, haveSeq, l.n.now)
	l.mu.Lock()
	l.dropExport(id)
	l.exports[id] = e
	l.order = append(l.order, e)
	l.mu.Unlock()
	e.watch(l.n.cfg.Source, func() { notify(l.wake) })
	notify(l.wake)
	return e
}

// notify wakes whoever waits on c, or the next one who will.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
