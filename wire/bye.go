package wire

// Bye is the last message on a control stream.
type Bye struct {
	Reason string `cbor:"1,keyasint,omitempty"` // for people, see Text
}

func (m Bye) number() uint { return TypeBye }
func (m Bye) check() error { return checkText("reason", m.Reason) }
