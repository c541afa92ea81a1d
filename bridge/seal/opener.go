package seal

import (
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

var (
	// errOtherKey is returned for a frame that was sealed with another key or names another origin. Either the key has
	// changed, the frame is from another channel or host, or it is forged.
	errOtherKey = errors.New("sealed frame: of another key")
	// ErrReplayed is returned for a frame that is not newer than a frame opened before, or that was sealed before the
	// reader got access.
	ErrReplayed = errors.New("sealed frame: seen before, or older")
	// errForged is returned for a frame that the origin did not seal.
	errForged = errors.New("sealed frame: not sealed by its origin")
)

// Opener opens the frames of one channel that are sealed with one key.
type Opener struct {
	origin Origin
	aead   cipher.AEAD
	public ed25519.PublicKey
	last   uint64 // only higher counters are accepted
	nonce  nonce
}

// NewOpener returns the opener for a key. It accepts frames with a counter of at least from. public is the key of the
// certificate with which the origin authenticated in its control session. public is nil under a shared network key,
// where frames are not signed.
func NewOpener(origin Origin, public ed25519.PublicKey, from uint64) *Opener {
	return &Opener{origin: origin, aead: origin.Key.aead(), public: public, last: max(from, 1) - 1}
}

// Last returns the counter of the newest opened frame, or from-1 before the first one. Frames up to this counter are
// refused.
func (o *Opener) Last() uint64 { return o.last }

// Open opens b and appends the data to dst; Data of the result refers to that part of dst. dst must not overlap b. If
// dst has room for b, Open allocates only to check a signature. After an error the opener is unchanged. The error wraps
// one of the three above, unless b cannot be parsed.
func (o *Opener) Open(dst, b []byte) (Frame, error) {
	h, f, signature, err := parse(b)
	switch {
	case err != nil:
		return Frame{}, err
	case h.key != o.origin.Key.ID || h.node != o.origin.Node:
		return Frame{}, errOtherKey
	case h.signed != (o.public != nil):
		return Frame{}, fmt.Errorf("%w: signed %t, want %t", errForged, h.signed, o.public != nil)
	case h.counter <= o.last:
		return Frame{}, fmt.Errorf("%w: counter %d, want one above %d", ErrReplayed, h.counter, o.last)
	}
	binary.BigEndian.PutUint64(o.nonce[4:], h.counter)
	begin := len(dst)
	out, err := o.aead.Open(dst, o.nonce[:], f.Data, b[:Before])
	if err != nil {
		return Frame{}, errForged
	}
	if h.signed {
		sum := sha256.Sum256(b[:len(b)-signatureSize])
		if ed25519.VerifyWithOptions(o.public, sum[:], signature, &signing) != nil {
			return Frame{}, fmt.Errorf("%w: bad signature", errForged)
		}
	}
	o.last = h.counter
	f.Data = out[begin:]
	return f, nil
}
