package layout

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// wireMessage checks whether bytes are a protobuf message of one type, and whether the message is small enough to be decoded. The
// check allocates no memory, except for an error.
type wireMessage struct {
	fields []wireField // sorted by number
}

// wireField is a field of a message type. Fields of a frame that the type does not have are ignored: a newer program may have
// written them.
type wireField struct {
	number     protowire.Number
	wireType   protowire.Type
	isPackable bool         // a repeated field that may be packed: all elements in one field of protowire.BytesType
	isUTF8     bool         // text that must be UTF-8
	isRequired bool         // a required field of proto2
	sub        *wireMessage // nil unless the field is a message
}

var wireTypes = map[protoreflect.Kind]protowire.Type{
	protoreflect.BoolKind: protowire.VarintType, protoreflect.EnumKind: protowire.VarintType,
	protoreflect.Int32Kind: protowire.VarintType, protoreflect.Sint32Kind: protowire.VarintType, protoreflect.Uint32Kind: protowire.VarintType,
	protoreflect.Int64Kind: protowire.VarintType, protoreflect.Sint64Kind: protowire.VarintType, protoreflect.Uint64Kind: protowire.VarintType,
	protoreflect.Sfixed32Kind: protowire.Fixed32Type, protoreflect.Fixed32Kind: protowire.Fixed32Type, protoreflect.FloatKind: protowire.Fixed32Type,
	protoreflect.Sfixed64Kind: protowire.Fixed64Type, protoreflect.Fixed64Kind: protowire.Fixed64Type, protoreflect.DoubleKind: protowire.Fixed64Type,
	protoreflect.StringKind: protowire.BytesType, protoreflect.BytesKind: protowire.BytesType,
	protoreflect.MessageKind: protowire.BytesType, protoreflect.GroupKind: protowire.StartGroupType,
}

func (m *wireMessage) add(d protoreflect.FieldDescriptor, sub *wireMessage) {
	f := wireField{number: d.Number(), wireType: wireTypes[d.Kind()], isRequired: d.Cardinality() == protoreflect.Required, sub: sub}
	f.isPackable = d.IsList() && f.wireType != protowire.BytesType && sub == nil
	if enforcer, ok := d.(interface{ EnforceUTF8() bool }); ok && d.Kind() == protoreflect.StringKind {
		f.isUTF8 = enforcer.EnforceUTF8()
	}
	m.fields = append(m.fields, f)
}

func (m *wireMessage) sort() {
	slices.SortFunc(m.fields, func(a, b wireField) int { return int(a.number) - int(b.number) })
}

// check returns an error if a frame is not a message of this type, or is too large to be decoded. Of the required fields, it checks
// those among the 64 fields with the lowest numbers.
func (m *wireMessage) check(frame []byte) error {
	values := maxValues
	return m.checkLevel(frame, 1, &values)
}

var (
	errEnds   = errors.New("it ends within a field, or is not a protobuf message")
	errValues = fmt.Errorf("it has more than %d values, or fields of messages", maxValues)
)

// checkLevel does what check does for the message b. level is its level of nesting; a frame has level 1. values is the number of
// values that the frame may still have.
func (m *wireMessage) checkLevel(b []byte, level int, values *int) error {
	if level > maxNested {
		return fmt.Errorf("it has more than %d levels of nested messages", maxNested)
	}
	if *values -= 1 + len(m.fields); *values < 0 {
		return errValues
	}
	var required uint64 // bit i is set if the message has the required field m.fields[i]
	for len(b) > 0 {
		number, wireType, n := protowire.ConsumeTag(b)
		if n < 0 || number > protowire.MaxValidNumber {
			return errEnds
		}
		size := protowire.ConsumeFieldValue(number, wireType, b[n:])
		if size < 0 {
			return errEnds
		}
		value := b[n : n+size]
		b = b[n+size:]
		i, known := slices.BinarySearchFunc(m.fields, number, func(f wireField, number protowire.Number) int { return int(f.number) - int(number) })
		if !known {
			continue
		}
		if m.fields[i].isRequired && i < 64 {
			required |= 1 << i
		}
		if err := m.fields[i].check(wireType, value, level, values); err != nil {
			return err
		}
	}
	for i, f := range m.fields[:min(64, len(m.fields))] {
		if f.isRequired && required&(1<<i) == 0 {
			return fmt.Errorf("the required field %d is missing", f.number)
		}
	}
	return nil
}

func (f *wireField) check(wireType protowire.Type, value []byte, level int, values *int) error {
	if *values--; *values < 0 {
		return errValues
	}
	switch {
	case wireType == protowire.BytesType && f.isPackable:
		elements, _ := protowire.ConsumeBytes(value)
		return f.checkElements(elements, values)
	case wireType != f.wireType:
		return fmt.Errorf("field %d has wire type %d, want %d", f.number, wireType, f.wireType)
	case f.sub != nil && wireType == protowire.StartGroupType:
		group, _ := protowire.ConsumeGroup(f.number, value)
		return f.sub.checkLevel(group, level+1, values)
	case f.sub != nil:
		message, _ := protowire.ConsumeBytes(value)
		return f.sub.checkLevel(message, level+1, values)
	case f.isUTF8:
		if text, _ := protowire.ConsumeBytes(value); !utf8.Valid(text) {
			return fmt.Errorf("field %d is not UTF-8", f.number)
		}
	}
	return nil
}

// checkElements checks the elements of a packed list.
func (f *wireField) checkElements(b []byte, values *int) error {
	for len(b) > 0 {
		n := protowire.ConsumeFieldValue(f.number, f.wireType, b)
		if n < 0 {
			return errEnds
		}
		b = b[n:]
		if *values--; *values < 0 {
			return errValues
		}
	}
	return nil
}
