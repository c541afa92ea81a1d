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

// signing has the options for signing the hash of a frame. Plain Ed25519 would read a frame twice, with the slower
// SHA-512. The context makes the signature invalid for any other purpose of the same key.
var signing = ed25519.Options{Context: "achbridge/1 sealed frame"}

// errUsedUp is returned after a key has sealed 2^64-1 frames.
var errUsedUp = errors.New("seal: the key is used up: take another")

// Sealer seals the frames of one channel with one key.
type Sealer struct {
	origin  Origin
	aead    cipher.AEAD
	signer  crypto.Signer
	counter uint64 // counter of the last frame
	nonce   nonce
}

// NewSealer returns the sealer for a key. A key must have only one sealer ever, since a second one would reuse its
// nonces. signer is the Ed25519 key of the host's certificate; nil means that frames are not signed.
func NewSealer(origin Origin, signer crypto.Signer) *Sealer {
	return &Sealer{origin: origin, aead: origin.Key.aead(), signer: signer}
}

// Last returns the counter of the newest frame, 0 before the first one.
func (s *Sealer) Last() uint64 { return s.counter }

// Overhead returns how many bytes a sealed frame is longer than its data.
func (s *Sealer) Overhead() int {
	if s.signer == nil {
		return Before + tagSize
	}
	return Before + tagSize + signatureSize
}

// Seal appends the sealed f to dst. It allocates memory if dst lacks room for the data and Overhead bytes; otherwise
// only a signature allocates. f.Data may be in the memory of dst, exactly Before bytes after its end; otherwise it must
// not overlap dst. After an error dst is unchanged, but the counter is used up.
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
