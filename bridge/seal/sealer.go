package seal

import (
	"crypto"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// signing is how the hashes of frames are signed: Ed25519 itself would go over a frame twice, by
// the slower SHA-512. The context keeps a signature from being good for anything
// else that the same key signs.
var signing = ed25519.Options{Context: "achbridge/1 sealed frame"}

// errUsedUp says that a key has sealed 2^64-1 frames.
var errUsedUp = errors.New("seal: the key is used up: take another")

// Sealer seals the frames of one channel, by one key.
type Sealer struct {
	origin  Origin
	aead    cipher.AEAD
	signer  crypto.Signer
	counter uint64 // of the last frame
	nonce   nonce
}

// NewSealer makes the sealer of a key. A key must have only one in its life, since a second one
// would use the same nonces. signer is the Ed25519 key of the host's certificate; nil: frames are
// not signed.
func NewSealer(origin Origin, signer crypto.Signer) *Sealer {
	return &Sealer{origin: origin, aead: origin.Key.aead(), signer: signer}
}

// Last is the counter of the newest frame, 0 before the first.
func (s *Sealer) Last() uint64 { return s.counter }

// Overhead is how many bytes longer a sealed frame is than its data.
func (s *Sealer) Overhead() int {
	if s.signer == nil {
		return Before + tagSize
	}
	return Before + tagSize + signatureSize
}

// Seal appends f, sealed, to dst, which needs room for Overhead bytes beside the data, or memory
// is allocated. Data may stand in dst exactly Before bytes behind its end; else it must not
// overlap dst. Besides, only the signature allocates. After an error dst is as it was, and the
// counter is used all the same.
func (s *Sealer) Seal(dst []byte, f Frame) ([]byte, error) {
	if err := f.check(); err != nil {
		return dst, fmt.Errorf("seal: %w", err)
	}
	if s.counter == math.MaxUint64 {
		return dst, errUsedUp
	}
	s.counter++
	binary.BigEndian.PutUint64(s.nonce[4:], s.counter)
	begin := len(dst)
	h := header{signed: s.signer != nil, key: s.origin.Key.ID, counter: s.counter, node: s.origin.Node}
	out := appendHeader(dst, h, &f)
	out = s.aead.Seal(out, s.nonce[:], f.Data, out[begin:])
	if s.signer == nil {
		return out, nil
	}
	sum := sha256.Sum256(out[begin:])
	signature, err := s.signer.Sign(nil, sum[:], &signing)
	if err != nil {
		return dst, fmt.Errorf("seal: %w", err)
	}
	return append(out, signature...), nil
}
