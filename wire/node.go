package wire

import "fmt"

// node is a node ID that decodes only from a byte string of 16 bytes. Package cbor fills a
// [16]byte from a byte string of any length.
type node [16]byte

// UnmarshalCBOR implements cbor.Unmarshaler.
func (n *node) UnmarshalCBOR(b []byte) error {
	const null, head = 0xf6, cborBytes<<5 | len(node{})
	if len(b) == 1 && b[0] == null {
		return nil // null means that the key is absent
	}
	if len(b) != 1+len(n) || int(b[0]) != head {
		return fmt.Errorf("node: not a byte string of %d", len(n))
	}
	copy(n[:], b[1:])
	return nil
}

func checkNode(id [16]byte) error {
	if id == [16]byte{} {
		return fmt.Errorf("node: %w", errNone)
	}
	return nil
}
