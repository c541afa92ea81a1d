package wire

// Revocations passes on the list of certificates that the network's authority has
// revoked. It is signed; who sends it does not matter.
type Revocations struct {
	List []byte `cbor:"1,keyasint,omitempty"` // a CRL (RFC 5280) in DER
}

// MaxRevocations is the size of the largest list, in bytes.
const MaxRevocations = 64 << 10

func (m Revocations) number() uint { return TypeRevocations }
func (m Revocations) check() error { return checkRange("list", len(m.List), 1, MaxRevocations) }
