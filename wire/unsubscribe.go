package wire

// Unsubscribe ends a subscription. Frames under way may still arrive.
type Unsubscribe struct {
	ID uint32 `cbor:"1,keyasint,omitempty"`
}

func (m Unsubscribe) number() uint { return TypeUnsubscribe }
func (m Unsubscribe) check() error { return checkID(m.ID) }
