package bridge

import (
	"crypto"
	"time"

	"achbridge/bridge/seal"
	"achbridge/bridge/transport"
	"achbridge/wire"
)

// hubKey is the key of one channel at the hub, and what seals frames with it. It belongs to the
// putter's goroutine, but for the key itself.
type hubKey struct {
	seal.Key
	*seal.Sealer
}

// newHubKey makes a random key for frames of this node.
func newHubKey(node [16]byte, signer crypto.Signer) *hubKey {
	key := seal.NewKey()
	return &hubKey{key, seal.NewSealer(seal.Origin{Key: key, Node: node}, signer)}
}

// rekeyStep is how far the wall clock may move against the monotonic clock before channels at the hub take another key. A virtual
// machine that is set back to a snapshot uses counters of its keys a second time. Its clocks show that only when its wall clock is set
// again, by a step above rekeyStep.
const rekeyStep = time.Second

// renewHubKeys gives all channels at the hub another key if step is above rekeyStep. step is how far the wall clock has moved against
// the monotonic clock.
func (n *Node) renewHubKeys(step time.Duration) {
	if step.Abs() <= rekeyStep {
		return
	}
	for _, p := range n.puts {
		p.mu.Lock()
		if p.key != nil && !p.ended {
			p.renewKey()
		}
		p.mu.Unlock()
	}
}

// message tells a reader the key. The frames for it have counters above after.
func (k *hubKey) message(sub uint32, after uint64) wire.Key {
	return wire.Key{Sub: sub, KeyID: k.ID[:], Key: k.Secret[:], From: after + 1}
}

// hubOpener opens the frames of one key.
type hubOpener struct {
	id   seal.ID
	from uint64 // counters below it are of frames from before the subscription
	*seal.Opener
}

// newHubOpener takes a key that the peer of s has sent, for its own frames.
func newHubOpener(m wire.Key, s *transport.Session) *hubOpener {
	key := seal.Key{ID: seal.ID(m.KeyID), Secret: [seal.SecretSize]byte(m.Key)}
	return &hubOpener{key.ID, m.From, seal.NewOpener(seal.Origin{Key: key, Node: s.Peer().Node}, s.SignedBy(), m.From)}
}
