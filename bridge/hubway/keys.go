package hubway

import (
	"crypto"
	"time"

	"achbridge/bridge/seal"
	"achbridge/wire"
)

// sealingKey is the key of one channel at the hub, with its sealer. Only the publisher's goroutine uses the sealer.
type sealingKey struct {
	seal.Key
	*seal.Sealer
	used uint64 // counter of the newest frame that was sent or failed; guarded by the publisher's mu
}

// newSealingKey generates a random key for frames of this node.
func newSealingKey(node [16]byte, signer crypto.Signer) *sealingKey {
	key := seal.NewKey()
	return &sealingKey{Key: key, Sealer: seal.NewSealer(seal.Origin{Key: key, Node: node}, signer)}
}

// message returns the message that gives a reader the key, valid for frames from now on.
func (k *sealingKey) message(sub uint32) wire.Key {
	return wire.Key{Sub: sub, KeyID: k.ID[:], Key: k.Secret[:], From: k.used + 1}
}

// RekeyStep is how far the wall clock may move against the monotonic clock before channels at the hub get a new key. A
// virtual machine restored from a snapshot reuses the frame counters of its keys. This shows only when its wall clock is
// corrected, by a step above RekeyStep.
const RekeyStep = time.Second

// WallClockMoved replaces the keys of all channels if step is above RekeyStep. step is how far the wall clock has moved
// against the monotonic clock.
func (t *Publishers) WallClockMoved(step time.Duration) {
	if step.Abs() <= RekeyStep {
		return
	}
	for _, p := range t.byChannel {
		p.mu.Lock()
		if p.phase == publishing {
			p.renewKey()
		}
		p.mu.Unlock()
	}
}

// openingKey decrypts frames sealed with one key.
type openingKey struct {
	id   seal.ID
	from uint64 // frames with a lower counter were sent before the subscription
	*seal.Opener
}
