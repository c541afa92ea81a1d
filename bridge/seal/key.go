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

// ID identifies a key. It is random, like the key.
type ID [idSize]byte

// Key is the key of one channel. It must be replaced when somebody who may not read the channel knows it.
type Key struct {
	ID     ID
	Secret [SecretSize]byte
}

// NewKey generates a random key.
func NewKey() Key {
	var k Key
	rand.Read(k.ID[:]) // never fails
	rand.Read(k.Secret[:])
	return k
}

// Origin identifies the sender of frames: the key and the node.
type Origin struct {
	Key  Key
	Node [16]byte // node id of the channel's host
}

// aead returns the AES-256-GCM cipher of a key.
func (k Key) aead() cipher.AEAD {
	block, err := aes.NewCipher(k.Secret[:])
	if err != nil {
		panic(err) // cannot happen: the key has a valid size
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // cannot happen: AES has the block size that GCM needs
	}
	return gcm
}

// nonce is a buffer for the nonce of one frame. Sealer and Opener have a nonce each, so that no frame allocates one.
type nonce [12]byte
