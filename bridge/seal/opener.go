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
	// errOtherKey says that a frame was sealed by another key, or names another origin: the key
	// has changed, the frame is of another channel or host, or it is forged.
	errOtherKey = errors.New("sealed frame: of another key")
	// ErrReplayed says that a frame is not newer than one that was opened before, or is from
	// before the reader was let in.
	ErrReplayed = errors.New("sealed frame: seen before, or older")
	// errForged says that a frame is not what the origin has sealed.
	errForged = errors.New("sealed frame: not sealed by its origin")
)

// Opener opens the frames of one channel, by one key.
type Opener struct {
	origin Origin
	aead   cipher.AEAD
	public ed25519.PublicKey
	last   uint64 // counters above it are taken
	nonce  nonce
}

// NewOpener makes the opener of a key. It takes frames with the counter from or above. public is the
// key of the certificate by which the origin has proved in its control session who it is; nil
// under a shared network key, where frames are not signed.
func NewOpener(origin Origin, public ed25519.PublicKey, from uint64) *Opener {
	return &Opener{origin: origin, aead: origin.Key.aead(), public: public, last: max(from, 1) - 1}
}

// Last is the counter of the newest frame that was opened, or the highest one that is refused.
func (o *Opener) Last() uint64 { return o.last }

// Open opens b and appends the data to dst; Data of the result is that part of it. dst must not
// overlap b. It allocates nothing if dst has room for b, but where it checks a signature. After an error,
// which wraps one of the three above unless b cannot be parsed, the opener is as it was.
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
