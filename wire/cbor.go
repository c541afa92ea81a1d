package wire

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// The two ways of CBOR, immutable.
var (
	encoding = encodingMode()
	decoding = decodingMode()
)

// Major types, the upper three bits of an item's first byte.
const (
	cborBytes = 2
	cborMap   = 5
)

func encodingMode() cbor.EncMode {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	return mode
}

// decodingMode bounds what a message of MaxMessage bytes can cost: without a
// limit on arrays a byte of input could ask for a hundred of memory.
func decodingMode() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		MaxNestedLevels:  8,
		MaxArrayElements: MaxChannels,
		MaxMapPairs:      256,
		IndefLength:      cbor.IndefLengthForbidden,
		TagsMd:           cbor.TagsForbidden,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}

// node is a node's ID as a message has it. Package cbor by itself would fill a
// [16]byte from a string of any length.
type node [16]byte

// UnmarshalCBOR implements cbor.Unmarshaler.
func (n *node) UnmarshalCBOR(b []byte) error {
	const head = cborBytes<<5 | len(node{})
	if len(b) != 1+len(n) || int(b[0]) != head {
		return fmt.Errorf("node: not a byte string of %d", len(n))
	}
	copy(n[:], b[1:])
	return nil
}
