package layout

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// The modes for packing and unpacking, immutable.
var (
	encoding = encodingMode()
	decoding = decodingMode()
)

func encodingMode() cbor.EncMode {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	return mode
}

// decodingMode allows as much as the largest good layout needs. A struct takes two levels: the
// list of its fields, and one of them.
func decodingMode() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		MaxNestedLevels:  2*maxDepth + 4,
		MaxArrayElements: maxFields,
		MaxMapPairs:      16,
		IndefLength:      cbor.IndefLengthForbidden,
		TagsMd:           cbor.TagsForbidden,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}

// Pack is a layout as it goes to another host: CBOR (RFC 8949) in core deterministic encoding,
// maps with the integer keys that stand beside the fields of Layout, Field and Word. There is one
// way only to write a layout. The error says what another host would have against it.
func (l *Layout) Pack() ([]byte, error) {
	packed, err := encoding.Marshal(l)
	if err == nil {
		_, err = Unpack(packed)
	}
	if err != nil {
		return nil, err
	}
	return packed, nil
}

var errDamaged = errors.New("not a layout as this version knows it")

// Unpack is the layout that Pack has packed. It trusts nothing: the layout passes Check, and what
// it does not know, or is written in another way, is an error. The text of an error is plain.
func Unpack(packed []byte) (*Layout, error) {
	if len(packed) > MaxText {
		return nil, fmt.Errorf("%d bytes: want at most %d", len(packed), MaxText)
	}
	l := &Layout{}
	if decoding.Unmarshal(packed, l) != nil {
		return nil, errDamaged // the text of the library may quote what was sent
	}
	if again, err := encoding.Marshal(l); err != nil || !bytes.Equal(again, packed) {
		return nil, errDamaged
	}
	if found := l.Check(); len(found) > 0 {
		return nil, errors.New(found[0].Text) // any name that a text tells has passed before
	}
	return l, nil
}

// Same reports whether two layouts say the same.
func (l *Layout) Same(as *Layout) bool {
	a, errA := l.Pack()
	b, errB := as.Pack()
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// Hash names a packed layout: its SHA-256.
func Hash(packed []byte) [sha256.Size]byte { return sha256.Sum256(packed) }
