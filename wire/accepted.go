package wire

// Accepted accepts an Offer.
type Accepted struct {
	ID uint32 `cbor:"1,keyasint,omitempty"`
}

func (m Accepted) number() uint { return TypeAccepted }
func (m Accepted) check() error { return checkID(m.ID) }
