package wire

import "github.com/fxamacker/cbor/v2"

// Immutable modes for encoding and decoding CBOR.
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

// decodingMode bounds the memory that decoding a message can take. Without a limit on arrays,
// a byte of input could take a hundred bytes of memory.
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
