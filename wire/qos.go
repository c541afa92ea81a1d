package wire

import (
	"fmt"
	"time"
)

// QoS is the quality of service that a subscription requests. The zero value of a field means the
// default. A node refuses values of Mode, Compress, Late and Class that it does not know.
type QoS struct {
	Budget   time.Duration `cbor:"1,keyasint,omitempty"` // latency budget, ns on the wire
	MaxRate  uint32        `cbor:"2,keyasint,omitempty"` // thousandths of a frame per second
	Priority int           `cbor:"3,keyasint,omitempty"` // 1 + priority: 1 … 8, 8 most urgent
	Mode     uint8         `cbor:"4,keyasint,omitempty"`
	Compress uint8         `cbor:"5,keyasint,omitempty"`
	Late     uint8         `cbor:"6,keyasint,omitempty"`
	Class    uint8         `cbor:"7,keyasint,omitempty"`
	Strict   bool          `cbor:"9,keyasint,omitempty"` // the mirror drops late frames, even the newest
}

func (q QoS) check() error {
	if q.Budget < 0 {
		return fmt.Errorf("budget: %v is negative", q.Budget)
	}
	return checkRange("priority", q.Priority, 0, 8)
}
