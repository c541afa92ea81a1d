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

// Key gives a subscriber the key of a channel whose frames come through a hub. The origin sends it
// after Subscribed, and again whenever it takes another key, since somebody may not have it any
// more. From then on the subscriber opens frames by the newest key alone.
type Key struct {
	Sub   uint32 `cbor:"1,keyasint,omitempty"` // ID of the subscription
	KeyID []byte `cbor:"2,keyasint,omitempty"` // 8 bytes
	Key   []byte `cbor:"3,keyasint,omitempty"` // 32 bytes
	// From is the least counter of a frame that the subscriber may take: that of the newest frame
	// at the hub, or above. 0: any.
	From uint64 `cbor:"4,keyasint,omitempty"`
}

func (m Key) number() uint { return TypeKey }

func (m Key) check() error {
	return cmp.Or(checkID(m.Sub), checkSize("key id", m.KeyID, keyIDSize), checkSize("key", m.Key, keySize))
}

// String leaves out the key itself, which belongs in no log.
func (m Key) String() string {
	return fmt.Sprintf("key %x of subscription %d, from %d", m.KeyID, m.Sub, m.From)
}

// GoString is String: %#v shows no more.
func (m Key) GoString() string { return m.String() }

func checkSize(field string, b []byte, want int) error {
	if len(b) != want {
		return fmt.Errorf("%s: %d bytes, want %d", field, len(b), want)
	}
	return nil
}
