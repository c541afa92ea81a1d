package layout

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// encMode and decMode are the modes for encoding and decoding layouts. They are immutable.
var (
	encMode = encodingMode()
	decMode = decodingMode()
)

func encodingMode() cbor.EncMode {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	return mode
}

// decodingMode returns a mode with the limits of the largest valid layout. A struct takes two levels of nesting: the
// list of its fields, and each field. A variant takes three: the list, the variant and its layout.
func decodingMode() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		MaxNestedLevels:  2*maxDepth + 7,
		MaxArrayElements: MaxFields,
		MaxMapPairs:      16,
		IndefLength:      cbor.IndefLengthForbidden,
		TagsMd:           cbor.TagsForbidden,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}

// Encode encodes a layout for other hosts: CBOR (RFC 8949) in core deterministic encoding. The integer keys of the maps
// are those in the tags of Layout, Field and Word. Each layout has exactly one encoding. The error is the reason why
// another host would reject the layout.
func (l *Layout) Encode() ([]byte, error) {
	encoded, err := encMode.Marshal(l)
	if err == nil {
		_, err = DecodeLayout(encoded)
	}
	if err != nil {
		return nil, err
	}
	return encoded, nil
}

var errDamaged = errors.New("not a layout that this version knows")

// DecodeLayout decodes a layout encoded by Pack. The input is untrusted: the layout must pass Check, and unknown keys or
// another encoding are errors. The text of an error is safe to display.
func DecodeLayout(encoded []byte) (*Layout, error) {
	if len(encoded) > MaxText {
		return nil, fmt.Errorf("%d bytes: want at most %d", len(encoded), MaxText)
	}
	l := &Layout{}
	if decMode.Unmarshal(encoded, l) != nil {
		return nil, errDamaged // the CBOR library's error may quote the input
	}
	if again, err := encMode.Marshal(l); err != nil || !bytes.Equal(again, encoded) {
		return nil, errDamaged
	}
	if found := l.Check(); len(found) > 0 {
		return nil, errors.New(found[0].Text) // names in this text have been checked before
	}
	return l, nil
}

// Same reports whether two layouts are equal.
func (l *Layout) Same(as *Layout) bool {
	a, errA := l.Encode()
	b, errB := as.Encode()
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// Hash returns the SHA-256 of a packed layout, which identifies it.
func Hash(encoded []byte) [sha256.Size]byte { return sha256.Sum256(encoded) }
