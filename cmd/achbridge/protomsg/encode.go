package protomsg

import (
	"encoding/hex"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/descriptorpb"

	"achbridge/bridge/layout"
)

// encoder encodes a struct as a protobuf message. The fields of the message have the numbers 1, 2 and so on.
type encoder struct{ list []fieldEncoder }

// fieldEncoder encodes one field of a struct.
type fieldEncoder struct {
	kind     descriptorpb.FieldDescriptorProto_Type
	isArray  bool
	isScaled bool
	sub      *encoder // nil unless the field is a struct
}

// Append appends the message with the values of a frame to dst. The error describes how the frame does not match the
// layout; dst is then unchanged.
func (m *Message) Append(dst, frame []byte) ([]byte, error) {
	v, variant, err := m.layout.DecodeVariant(frame)
	switch {
	case err != nil:
		return dst, err
	case m.variants == nil:
		return append(dst, frame...), nil
	case m.layout.Variants == nil:
		return m.variants[0].append(dst, v), nil
	}
	dst = protowire.AppendTag(dst, protowire.Number(variant+1), protowire.BytesType)
	return protowire.AppendBytes(dst, m.variants[variant].append(nil, v)), nil
}

func (e *encoder) append(b []byte, v layout.Value) []byte {
	for i := range e.list {
		b = e.list[i].append(b, protowire.Number(i+1), v.Member(i))
	}
	return b
}

// append appends a field. As in proto3, it omits empty arrays and single values that are 0, false or empty.
func (f *fieldEncoder) append(b []byte, number protowire.Number, v layout.Value) []byte {
	switch {
	case f.wireType() == protowire.BytesType && f.isArray:
		return f.appendEach(b, number, v)
	case f.isArray:
		if elements := f.appendElements(nil, v); len(elements) > 0 {
			return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), elements)
		}
		return b
	case f.sub == nil && f.isZero(v):
		return b
	}
	return f.appendValue(protowire.AppendTag(b, number, f.wireType()), v)
}

// appendEach appends the elements of an array, each with a tag.
func (f *fieldEncoder) appendEach(b []byte, number protowire.Number, v layout.Value) []byte {
	n, isArray := v.Len()
	if !isArray {
		return f.appendValue(protowire.AppendTag(b, number, protowire.BytesType), v)
	}
	for i := range n {
		b = f.appendEach(b, number, v.At(i))
	}
	return b
}

// appendElements appends the elements of a packed array: numbers without tags.
func (f *fieldEncoder) appendElements(b []byte, v layout.Value) []byte {
	n, isArray := v.Len()
	if !isArray {
		return f.appendValue(b, v)
	}
	for i := range n {
		b = f.appendElements(b, v.At(i))
	}
	return b
}

func (f *fieldEncoder) wireType() protowire.Type {
	switch f.kind {
	case descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_BYTES:
		return protowire.BytesType
	case descriptorpb.FieldDescriptorProto_TYPE_DOUBLE:
		return protowire.Fixed64Type
	case descriptorpb.FieldDescriptorProto_TYPE_FLOAT:
		return protowire.Fixed32Type
	}
	return protowire.VarintType
}

// isZero reports whether a single value is the default of its type, which a message omits.
func (f *fieldEncoder) isZero(v layout.Value) bool {
	if f.wireType() == protowire.BytesType {
		return v.Text() == ""
	}
	return f.bits(v) == 0
}

// bits returns the bits of a number in the message. A number with a scale is a double there.
func (f *fieldEncoder) bits(v layout.Value) uint64 {
	switch {
	case f.isScaled:
		x, _ := v.Number()
		return math.Float64bits(x)
	case f.kind == descriptorpb.FieldDescriptorProto_TYPE_BOOL && v.Bits() != 0:
		return 1
	}
	return v.Bits()
}

// appendValue appends a single value without a tag.
func (f *fieldEncoder) appendValue(b []byte, v layout.Value) []byte {
	switch f.kind {
	case descriptorpb.FieldDescriptorProto_TYPE_MESSAGE:
		return protowire.AppendBytes(b, f.sub.append(nil, v))
	case descriptorpb.FieldDescriptorProto_TYPE_STRING:
		return protowire.AppendString(b, strings.ToValidUTF8(v.Text(), "\ufffd"))
	case descriptorpb.FieldDescriptorProto_TYPE_BYTES:
		raw, _ := hex.DecodeString(v.Text()) // Text returns bytes in hexadecimal
		return protowire.AppendBytes(b, raw)
	}
	switch f.wireType() {
	case protowire.Fixed64Type:
		return protowire.AppendFixed64(b, f.bits(v))
	case protowire.Fixed32Type:
		return protowire.AppendFixed32(b, uint32(f.bits(v)))
	}
	return protowire.AppendVarint(b, f.bits(v))
}
