package hubway

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/localach"
	"achbridge/wire"
)

// Config holds the parameters that Publishers get from the node.
type Config struct {
	Hub       Hub // nil means that this host uses no hub
	Host      string
	Node      [16]byte
	Signer    func() crypto.Signer // returns the signer of this host's certificate, or nil under a shared network key
	Source    ring.Source
	Clock     ring.Clock
	Suspended func() time.Duration // total time that the host has been suspended
	Spawn     func(func())         // starts a goroutine
	// Freed is called when no subscription reads a channel as class command any more.
	Freed func(channel string)
}

// Publishers publish channels of this host to the hub, each channel once for all peers that subscribe there. Only the
// node's goroutine uses them.
type Publishers struct {
	cfg       Config
	ctx       context.Context
	byChannel map[string]*publisher
}

// NewPublishers returns publishers that end with ctx.
func NewPublishers(ctx context.Context, cfg Config) *Publishers {
	return &Publishers{cfg: cfg, ctx: ctx, byChannel: make(map[string]*publisher)}
}

// Peer is a link through the hub. It must be comparable: a peer has one link.
type Peer interface {
	// Send queues a control message. It does not block.
	Send(wire.Message)
	// Host returns the peer's name.
	Host() string
}

// Refuses returns why a peer cannot read a channel through the hub, nil if it can.
func (t *Publishers) Refuses(peer Peer, channel string, qos rule.QoS) error {
	if t.cfg.Hub == nil {
		return errors.New("this host uses no hub")
	}
	if qos.Mode == rule.Every {
		return fmt.Errorf("mode every needs a direct link to %s: a hub keeps only the newest frame", t.cfg.Host)
	}
	p := t.byChannel[channel]
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.subscriptions {
		if s.peer == peer {
			continue
		}
		if qos.Class == rule.Command || s.qos.Class == rule.Command {
			return fmt.Errorf("%s already reads it through the hub, where commands go to one receiver only", s.peer.Host())
		}
	}
	return nil
}

// Request is a peer's request for a channel.
type Request struct {
	ID       uint32
	Peer     Peer
	QoS      rule.QoS
	Have     uint64                 // newest frame in the peer's mirror
	Counters *ledger.SenderCounters // counts the outcomes of the frames
	Copies   *ring.Snapshots
}

// Subscribe begins to publish a channel for a peer.
func (t *Publishers) Subscribe(ch *localach.Channel, r Request) *Subscription {
	last := ch.LastSeq()
	r.Counters.Begin(ch.Epoch(), r.Have, last)
	p := t.byChannel[ch.Name()]
	if p == nil {
		loaded := last
		if r.Have < last {
			loaded = last - 1 // a new subscriber receives the newest frame (last-value delivery)
		}
		p = t.publish(ch, r.Copies, loaded)
		t.byChannel[ch.Name()] = p
	}
	s := &Subscription{publisher: p, id: r.ID, peer: r.Peer, counters: r.Counters, arrived: r.Have, countersAtBegin: *r.Counters, qos: r.QoS}
	p.join(s, r.Have, last)
	return s
}

// Key returns the key for a channel's next frames, as its subscribers get it, and the number of the newest frame that
// was put. ok is false if the channel is not published.
func (t *Publishers) Key(channel string) (key wire.Key, newest uint64, ok bool) {
	p := t.byChannel[channel]
	if p == nil {
		return key, 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.key.message(0), p.newest.seq, true
}
