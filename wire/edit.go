package wire

import (
	"cmp"
	"fmt"
)

// Edit asks the peer to change fields of the newest frame of one of its channels, and to put the result. The peer answers with
// Edited, or with Refused. Nodes whose Hello lacks Edits skip the message.
type Edit struct {
	ID      uint32      `cbor:"1,keyasint,omitempty"` // chosen by the sender, in use only once per link
	Channel string      `cbor:"2,keyasint,omitempty"`
	Fields  []FieldEdit `cbor:"3,keyasint,omitempty"` // at least one, at most MaxFieldEdits
}

// FieldEdit is the change of one field, or the value that it must have. Values are as package layout prints them.
type FieldEdit struct {
	Path   string `cbor:"1,keyasint,omitempty"` // as in gains.kp or motors[2].current
	Value  string `cbor:"2,keyasint,omitempty"`
	Expect bool   `cbor:"3,keyasint,omitempty"` // the field must have this value already, and is not changed
}

// MaxFieldEdits is the greatest number of fields in an Edit.
const MaxFieldEdits = 64

func (m Edit) number() uint { return TypeEdit }

func (m Edit) check() error {
	if err := cmp.Or(checkID(m.ID), checkName("channel", m.Channel), checkRange("fields", len(m.Fields), 1, MaxFieldEdits)); err != nil {
		return err
	}
	for i, f := range m.Fields {
		err := cmp.Or(checkText("path", f.Path), checkText("value", f.Value))
		if err == nil && f.Path == "" {
			err = fmt.Errorf("path: %w", errNone)
		}
		if err != nil {
			return fmt.Errorf("fields[%d]: %w", i, err)
		}
	}
	return nil
}

// Edited reports that the frame that an Edit asked for was put.
type Edited struct {
	ID     uint32   `cbor:"1,keyasint,omitempty"`
	Seq    uint64   `cbor:"2,keyasint,omitempty"` // number of the frame
	Before []string `cbor:"3,keyasint,omitempty"` // values of the fields of the Edit in the frame before, in the same order
	After  []string `cbor:"4,keyasint,omitempty"` // their values in the frame
}

func (m Edited) number() uint { return TypeEdited }

func (m Edited) check() error {
	err := cmp.Or(checkID(m.ID), checkRange("before", len(m.Before), 1, MaxFieldEdits), checkRange("after", len(m.After), len(m.Before), len(m.Before)))
	if err == nil && m.Seq == 0 {
		err = fmt.Errorf("seq: %w", errNone)
	}
	for i := range m.Before {
		if err == nil {
			err = cmp.Or(checkText("before", m.Before[i]), checkText("after", m.After[i]))
		}
	}
	return err
}
