package wire

// Pulled tells an origin what its subscriber has pulled from a hub, so that it puts no more
// there than the fastest subscriber takes. The subscriber sends it once a second while frames come.
type Pulled struct {
	Sub      uint32 `cbor:"1,keyasint,omitempty"` // ID of the subscription
	Received uint64 `cbor:"2,keyasint,omitempty"` // frames since the subscription began
	Waiting  bool   `cbor:"3,keyasint,omitempty"` // since the last report a pull was waiting at the hub: more could come
}

func (m Pulled) number() uint { return TypePulled }
func (m Pulled) check() error { return checkID(m.Sub) }
