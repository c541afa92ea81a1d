package wire

import (
	"cmp"
	"fmt"
)

// Sizes of a Key's fields, in bytes.
const (
	keyIDSize = 8
	keySize   = 32
)

// Key carries the key with which a subscriber opens frames that it fetches from a hub. The origin
// sends it after Subscribed, and again whenever it changes the key because a subscriber has left.
// The subscriber then accepts only the newest key.
type Key struct {
	Sub   uint32 `cbor:"1,keyasint,omitempty"` // ID of the subscription
	KeyID []byte `cbor:"2,keyasint,omitempty"` // 8 bytes
	Key   []byte `cbor:"3,keyasint,omitempty"` // 32 bytes
	// From is the lowest frame counter that the subscriber may accept, at least that of the newest
	// frame at the hub.
	From uint64 `cbor:"4,keyasint,omitempty"`
}

func (m Key) number() uint { return TypeKey }

func (m Key) check() error {
	return cmp.Or(checkID(m.Sub), checkSize("key id", m.KeyID, keyIDSize), checkSize("key", m.Key, keySize))
}

// String formats m for logs, without the secret key.
func (m Key) String() string {
	return fmt.Sprintf("key %x of subscription %d, from %d", m.KeyID, m.Sub, m.From)
}

// GoString keeps the secret key out of %#v.
func (m Key) GoString() string { return m.String() }

func checkSize(field string, b []byte, want int) error {
	if len(b) != want {
		return fmt.Errorf("%s: %d bytes, want %d", field, len(b), want)
	}
	return nil
}
