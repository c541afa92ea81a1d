package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
)

// Sizes in bytes.
const (
	idSize     = 8
	SecretSize = 32
)

// ID names a key. It is random, like the key.
type ID [idSize]byte

// Key is the key of one channel. A key that becomes known to somebody who may not read the
// channel has to be replaced by another one.
type Key struct {
	ID     ID
	Secret [SecretSize]byte
}

// NewKey makes a random key.
func NewKey() Key {
	var k Key
	rand.Read(k.ID[:]) // never fails
	rand.Read(k.Secret[:])
	return k
}

// Origin is where the frames of a key come from.
type Origin struct {
	Key  Key
	Node [16]byte // of the host whose channel it is
}

// aead returns the cipher of a key.
func (k Key) aead() cipher.AEAD {
	block, err := aes.NewCipher(k.Secret[:])
	if err != nil {
		panic(err) // the size is right
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // so is AES's block
	}
	return gcm
}

// nonce is what a cipher needs for a frame; it stands in its user, to be on the heap once.
type nonce [12]byte
