package layout

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Layout is the layout of a channel's frames: a struct, a protobuf message, or several layouts in Variants.
type Layout struct {
	Name   string  `cbor:"1,keyasint,omitempty"`
	Size   int     `cbor:"2,keyasint,omitempty"` // size of a frame, bytes; with a tail, the C size of the struct
	Fields []Field `cbor:"3,keyasint,omitempty"`
	// Tail is the name of the last field if its number of elements differs between frames. Counter names the field with
	// that number, as in n or header.n, or the fields with the tail's outer dimensions, as in rows*columns, outermost
	// first. Count of the tail's field has only the inner dimensions, which are the same in all frames. An empty Counter
	// means that the tail extends to the end of the frame.
	Tail    string `cbor:"4,keyasint,omitempty"`
	Counter string `cbor:"5,keyasint,omitempty"`
	// Variants are the layouts of a channel with several kinds of frames; Size, Fields, Tail and Counter are then empty.
	// By names the integer field that determines the variant of a frame. The field has the same offset and type in all
	// variants. If By is empty, the first variant that a frame matches applies.
	By       string    `cbor:"6,keyasint,omitempty"`
	Variants []Variant `cbor:"7,keyasint,omitempty"`
	// Descriptors has the protobuf message Name and the messages that it contains, as an encoded FileDescriptorSet of
	// descriptor.proto. The fields above, except Name, are then empty. nil means that frames are structs.
	Descriptors []byte `cbor:"8,keyasint,omitempty"`

	protobuf *protobuf // compiled by Check; nil if there are no Descriptors
}

// String returns the name, and the size of frames unless a protobuf message or Variants determine it.
func (l *Layout) String() string {
	if l.Size == 0 {
		return l.Name
	}
	return fmt.Sprintf("%s, %d bytes", l.Name, l.Size)
}

// Variant is one of several layouts.
type Variant struct {
	Value  int64  `cbor:"1,keyasint,omitempty"` // value of the field By in frames with this layout; 0 without By
	Layout Layout `cbor:"2,keyasint,omitempty"`
}

// Field is one field of a struct.
type Field struct {
	Name   string  `cbor:"1,keyasint,omitempty"`
	Offset int     `cbor:"2,keyasint,omitempty"` // in the struct, bytes
	Type   Type    `cbor:"3,keyasint,omitempty"`
	Size   int     `cbor:"4,keyasint,omitempty"` // size of one element for Struct and Bytes; other types have a fixed size
	Count  []int   `cbor:"5,keyasint,omitempty"` // dimensions of an array; nil means a single value
	Bits   int     `cbor:"6,keyasint,omitempty"` // width of a bit field; 0 means no bit field
	Bit    int     `cbor:"7,keyasint,omitempty"` // lowest bit of a bit field, counted from Offset
	Words  []Word  `cbor:"8,keyasint,omitempty"`
	Unit   string  `cbor:"9,keyasint,omitempty"`
	Scale  float64 `cbor:"10,keyasint,omitempty"` // factor for the displayed number; 0 means 1
	Union  bool    `cbor:"11,keyasint,omitempty"` // set for the first member of a union: the bytes may have another meaning
	Fields []Field `cbor:"12,keyasint,omitempty"` // fields of a Struct

	open       bool                         // the number of elements differs between frames
	descriptor protoreflect.FieldDescriptor // nil unless the field belongs to a protobuf message
}

// IsOpen reports whether the number of elements differs between frames. It is valid only for fields that Value.Field returned, and
// for fields of these.
func (f *Field) IsOpen() bool { return f.open }

// Word is the name of one value of an enumeration.
type Word struct {
	Value int64  `cbor:"1,keyasint,omitempty"`
	Name  string `cbor:"2,keyasint,omitempty"`
}

// Type is the C type of one element, with its name in layout files.
type Type string

// Types of one element.
const (
	Int8    Type = "int8"
	Int16   Type = "int16"
	Int32   Type = "int32"
	Int64   Type = "int64"
	Uint8   Type = "uint8"
	Uint16  Type = "uint16"
	Uint32  Type = "uint32"
	Uint64  Type = "uint64"
	Float   Type = "float"
	Double  Type = "double"
	Bool    Type = "bool"
	Char    Type = "char"    // text; the last dimension is the maximum length
	Pointer Type = "pointer" // displayed in hexadecimal
	Bytes   Type = "bytes"   // for data of any other type; displayed in hexadecimal
	Struct  Type = "struct"
	String  Type = "string" // text of any length, in protobuf messages only
)

// sizes has the types with a fixed size, in bytes.
var sizes = map[Type]int{
	Int8: 1, Int16: 2, Int32: 4, Int64: 8, Uint8: 1, Uint16: 2, Uint32: 4, Uint64: 8,
	Float: 4, Double: 8, Bool: 1, Char: 1, Pointer: 8,
}

// types returns all types of one element.
func types() []Type {
	return []Type{Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Float, Double, Bool, Char, Pointer, Bytes, Struct}
}

// OwnSize returns the fixed size of one element in bytes, 0 if each field of this type has its own size.
func (t Type) OwnSize() int { return sizes[t] }

func (t Type) signed() bool { return slices.Contains([]Type{Int8, Int16, Int32, Int64}, t) }

func (t Type) unsigned() bool { return slices.Contains([]Type{Uint8, Uint16, Uint32, Uint64}, t) }

// isNumber reports whether values of the type are numbers or booleans.
func (t Type) isNumber() bool { return t.integer() || t == Float || t == Double || t == Bool }

func (t Type) integer() bool { return t.signed() || t.unsigned() }

// element returns the size of one element of the field, in bytes.
func (f *Field) element() int {
	if n := sizes[f.Type]; n > 0 {
		return n
	}
	return f.Size
}

// product returns the number of elements of the dimensions. ok is false if that is more than a frame can hold.
func product(count []int, element int) (n int, ok bool) {
	n = 1
	for _, c := range count {
		if c < 1 || n > maxSize/c {
			return 0, false
		}
		n *= c
	}
	return n, element >= 1 && n <= maxSize/element
}
