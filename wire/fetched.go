package wire

// Pulled reports to an origin what its subscriber has fetched from a hub, so that the origin puts
// frames there no faster than its fastest subscriber fetches them. The subscriber sends it once a
// second while frames arrive.
type Pulled struct {
	Sub      uint32 `cbor:"1,keyasint,omitempty"` // ID of the subscription
	Received uint64 `cbor:"2,keyasint,omitempty"` // frames since the subscription began
	Waiting  bool   `cbor:"3,keyasint,omitempty"` // since the last report, a fetch has waited at the hub: the subscriber can take more frames
}

func (m Pulled) number() uint { return TypePulled }
func (m Pulled) check() error { return checkID(m.Sub) }
