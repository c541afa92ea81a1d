// Package protomsg writes frames as protobuf messages, which Foxglove, Rerun and other programs show.
//
//	m, err := protomsg.Of(l)
//	fmt.Println(m.Name)            // achbridge.imu
//	b, err = m.Append(nil, frame)  // err: the frame does not match the layout
//
// A struct becomes a message with the same fields and values. A number with a scale is multiplied by the scale, and becomes a
// double. Arrays become one-dimensional, row by row. Frames that are protobuf messages stay unchanged.
package protomsg

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"achbridge/bridge/layout"
)

// Message converts the frames of one layout to protobuf messages of one type. It is immutable.
type Message struct {
	Name        string // with its package
	Descriptors []byte // FileDescriptorSet of descriptor.proto

	layout *layout.Layout
	// variants has an encoder for each variant of the layout, or one for a layout without variants. nil means that frames
	// are protobuf messages already.
	variants []*encoder
}

// pkg is the package of all messages.
const pkg = "achbridge"

// Of returns the Message for a layout, which must have passed Check and must not change.
func Of(l *layout.Layout) (*Message, error) {
	if l.Descriptors != nil {
		return &Message{Name: l.Name, Descriptors: l.Descriptors, layout: l}, nil
	}
	m := &Message{layout: l}
	top := names{}
	name := top.free(legal(l.Name))
	root := &descriptorpb.DescriptorProto{Name: &name}
	if l.Variants == nil {
		e := &encoder{}
		e.fields(root, pkg+"."+name, l.Absent()[0].Field().Fields)
		m.variants = []*encoder{e}
	} else {
		m.addVariants(root, name, l)
	}
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String(name + ".proto"), Package: proto.String(pkg), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{root},
	}
	var err error
	m.Name = pkg + "." + name
	m.Descriptors, err = proto.MarshalOptions{Deterministic: true}.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}})
	return m, err
}

// addVariants makes a message with a field for each variant. A frame has one of these fields.
func (m *Message) addVariants(root *descriptorpb.DescriptorProto, name string, l *layout.Layout) {
	used := names{}
	for i, absent := range l.Absent() {
		field := used.free(legal(absent.Field().Name))
		inner := &descriptorpb.DescriptorProto{Name: proto.String(used.free(typeName(field)))}
		path := pkg + "." + name + "." + inner.GetName()
		e := &encoder{}
		e.fields(inner, path, absent.Field().Fields)
		root.NestedType = append(root.NestedType, inner)
		root.Field = append(root.Field, &descriptorpb.FieldDescriptorProto{
			Name: &field, Number: proto.Int32(int32(i + 1)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), TypeName: proto.String("." + path),
		})
		m.variants = append(m.variants, e)
	}
}

// fields adds the fields of a struct to a message, whose full name is path, and to the encoder of its values.
func (e *encoder) fields(to *descriptorpb.DescriptorProto, path string, fields []layout.Field) {
	used := names{}
	called := make([]string, len(fields))
	for i := range fields {
		called[i] = used.free(legal(fields[i].Name))
	}
	for i := range fields {
		f := &fields[i]
		d := &descriptorpb.FieldDescriptorProto{Name: &called[i], Number: proto.Int32(int32(i + 1)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if isArray(f) {
			d.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		one := fieldEncoder{isArray: isArray(f)}
		switch {
		case f.Type == layout.Struct:
			inner := &descriptorpb.DescriptorProto{Name: proto.String(used.free(typeName(called[i])))}
			one.sub, one.kind = &encoder{}, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
			one.sub.fields(inner, path+"."+inner.GetName(), f.Fields)
			to.NestedType = append(to.NestedType, inner)
			d.TypeName = proto.String("." + path + "." + inner.GetName())
		case isEnum(f):
			enum := enumeration(used, called[i], f.Words)
			one.kind = descriptorpb.FieldDescriptorProto_TYPE_ENUM
			to.EnumType = append(to.EnumType, enum)
			d.TypeName = proto.String("." + path + "." + enum.GetName())
		case f.Scale != 0:
			one.kind = descriptorpb.FieldDescriptorProto_TYPE_DOUBLE
		default:
			one.kind = kinds[f.Type]
		}
		one.isScaled = f.Scale != 0
		d.Type = one.kind.Enum()
		to.Field = append(to.Field, d)
		e.list = append(e.list, one)
	}
}

// isArray reports whether a field has several values. An array of characters is one text.
func isArray(f *layout.Field) bool {
	return f.IsOpen() && !(f.Type == layout.Char && len(f.Count) == 1) || len(f.Count) > 1 || len(f.Count) == 1 && f.Type != layout.Char
}

var kinds = map[layout.Type]descriptorpb.FieldDescriptorProto_Type{
	layout.Int8: descriptorpb.FieldDescriptorProto_TYPE_INT32, layout.Int16: descriptorpb.FieldDescriptorProto_TYPE_INT32,
	layout.Int32: descriptorpb.FieldDescriptorProto_TYPE_INT32, layout.Int64: descriptorpb.FieldDescriptorProto_TYPE_INT64,
	layout.Uint8: descriptorpb.FieldDescriptorProto_TYPE_UINT32, layout.Uint16: descriptorpb.FieldDescriptorProto_TYPE_UINT32,
	layout.Uint32: descriptorpb.FieldDescriptorProto_TYPE_UINT32, layout.Uint64: descriptorpb.FieldDescriptorProto_TYPE_UINT64,
	layout.Pointer: descriptorpb.FieldDescriptorProto_TYPE_UINT64, layout.Bool: descriptorpb.FieldDescriptorProto_TYPE_BOOL,
	layout.Float: descriptorpb.FieldDescriptorProto_TYPE_FLOAT, layout.Double: descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
	layout.Char: descriptorpb.FieldDescriptorProto_TYPE_STRING, layout.Bytes: descriptorpb.FieldDescriptorProto_TYPE_BYTES,
}

// isEnum reports whether a field has an enumeration that protobuf can express, whose values have 32 bits.
func isEnum(f *layout.Field) bool {
	return f.Words != nil && !slices.ContainsFunc(f.Words, func(w layout.Word) bool { return w.Value < math.MinInt32 || w.Value > math.MaxInt32 })
}

// enumeration returns the enumeration of a field. Its names begin with the name of the enumeration, since they share a
// scope with those of other enumerations.
func enumeration(used names, field string, words []layout.Word) *descriptorpb.EnumDescriptorProto {
	name := used.free(typeName(field))
	to := &descriptorpb.EnumDescriptorProto{Name: &name}
	add := func(word string, value int64) {
		to.Value = append(to.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String(used.free(name + "_" + legal(word))), Number: proto.Int32(int32(value))})
	}
	zero := slices.IndexFunc(words, func(w layout.Word) bool { return w.Value == 0 })
	if zero < 0 {
		add("0", 0)
	} else {
		add(words[zero].Name, 0)
	}
	for i, w := range words {
		if i != zero {
			add(w.Name, w.Value)
		}
	}
	return to
}

// typeName returns the name of the type of a field.
func typeName(field string) string { return strings.ToUpper(field[:1]) + field[1:] + "Type" }

// names has the names of one scope, in lower case and without _, since protobuf compares some names in this form. The value for a name
// is the number that free appended last to make a name unique, at least 1.
type names map[string]int

// free returns wanted, or wanted with a number if that name is used, and marks the result as used.
func (n names) free(wanted string) string {
	name, number := wanted, max(1, n[bare(wanted)])
	for n[bare(name)] > 0 {
		number++
		name = fmt.Sprintf("%s_%d", wanted, number)
	}
	n[bare(wanted)] = number
	n[bare(name)] = max(1, n[bare(name)])
	return name
}

func bare(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

var foreign = regexp.MustCompile(`[^A-Za-z0-9]+`)

// legal replaces characters in name, so that it has only letters, digits and _, and begins with a letter.
func legal(name string) string {
	name = strings.Trim(foreign.ReplaceAllString(name, "_"), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "x" + name
	}
	return name
}
