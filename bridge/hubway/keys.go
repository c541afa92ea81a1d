package hubway

import (
	"crypto"
	"time"

	"achbridge/bridge/seal"
	"achbridge/wire"
)

// sealingKey is the key of one channel at the hub, with its sealer. The publisher's goroutine uses the sealer.
type sealingKey struct {
	seal.Key
	*seal.Sealer
	used uint64 // counter of the newest frame that has left, or could not; under the publisher's mu
}

// newSealingKey makes a random key for frames of this node.
func newSealingKey(node [16]byte, signer crypto.Signer) *sealingKey {
	key := seal.NewKey()
	return &sealingKey{Key: key, Sealer: seal.NewSealer(seal.Origin{Key: key, Node: node}, signer)}
}

// message returns the message that gives a reader the key, for the frames from now on.
func (k *sealingKey) message(sub uint32) wire.Key {
	return wire.Key{Sub: sub, KeyID: k.ID[:], Key: k.Secret[:], From: k.used + 1}
}

// RekeyStep is how far the wall clock may move against the monotonic clock before channels at the hub take another key. A
// virtual machine that is set back to a snapshot uses counters of its keys a second time. Its clocks show that only when its
// wall clock is set again, by a step above RekeyStep.
const RekeyStep = time.Second

// WallClockMoved gives all channels another key if step is above RekeyStep. step is how far the wall clock has moved against the
// monotonic clock.
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

// openingKey opens the frames of one key.
type openingKey struct {
	id   seal.ID
	from uint64 // counters below it are of frames from before the subscription
	*seal.Opener
}
