package layout

import (
	"slices"
)

// Layout is the layout of a channel's frames.
type Layout struct {
	Name   string  `cbor:"1,keyasint,omitempty"`
	Size   int     `cbor:"2,keyasint,omitempty"` // of a frame, in bytes; with a tail, of the struct as the compiler has it
	Fields []Field `cbor:"3,keyasint,omitempty"`
	// Tail is the name of the last field when the frame's size decides how many elements it
	// has; that outermost dimension is not in its Count. Counter is the field with that
	// number, or "" when the tail takes the rest of the frame.
	Tail    string `cbor:"4,keyasint,omitempty"`
	Counter string `cbor:"5,keyasint,omitempty"`
}

// Field is one field of a struct.
type Field struct {
	Name   string  `cbor:"1,keyasint,omitempty"`
	Offset int     `cbor:"2,keyasint,omitempty"` // in the struct, in bytes
	Type   Type    `cbor:"3,keyasint,omitempty"`
	Size   int     `cbor:"4,keyasint,omitempty"` // of one element, for Struct and Bytes; other types have their own
	Count  []int   `cbor:"5,keyasint,omitempty"` // of an array, by dimension; nil: one value
	Bits   int     `cbor:"6,keyasint,omitempty"` // of a bit field: its width; 0: none
	Bit    int     `cbor:"7,keyasint,omitempty"` // of a bit field: its lowest bit, counted from Offset
	Words  []Word  `cbor:"8,keyasint,omitempty"`
	Unit   string  `cbor:"9,keyasint,omitempty"`
	Scale  float64 `cbor:"10,keyasint,omitempty"` // what is shown is the number times this; 0: the number
	Union  bool    `cbor:"11,keyasint,omitempty"` // the bytes may mean something else, too
	Fields []Field `cbor:"12,keyasint,omitempty"` // of a Struct
}

// Word is the name of one value of an enumeration.
type Word struct {
	Value int64  `cbor:"1,keyasint,omitempty"`
	Name  string `cbor:"2,keyasint,omitempty"`
}

// Type is the C type of one element, named as in layout files.
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
	Char    Type = "char"    // text; its last dimension is the longest length
	Pointer Type = "pointer" // shown in hexadecimal
	Bytes   Type = "bytes"   // shown in hexadecimal: what has no other type here
	Struct  Type = "struct"
)

// sizes are those of the types with a size of their own.
var sizes = map[Type]int{
	Int8: 1, Int16: 2, Int32: 4, Int64: 8, Uint8: 1, Uint16: 2, Uint32: 4, Uint64: 8,
	Float: 4, Double: 8, Bool: 1, Char: 1, Pointer: 8,
}

// types are all types of one element.
func types() []Type {
	return []Type{Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Float, Double, Bool, Char, Pointer, Bytes, Struct}
}

// OwnSize is the size of one element, 0 when a field of this type has to say it.
func (t Type) OwnSize() int { return sizes[t] }

func (t Type) signed() bool { return slices.Contains([]Type{Int8, Int16, Int32, Int64}, t) }

func (t Type) unsigned() bool { return slices.Contains([]Type{Uint8, Uint16, Uint32, Uint64}, t) }

func (t Type) integer() bool { return t.signed() || t.unsigned() }

// element is the size of one element of the field.
func (f *Field) element() int {
	if n := sizes[f.Type]; n > 0 {
		return n
	}
	return f.Size
}

// product is how many elements the dimensions make; ok is false when that is more than a
// frame can have.
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
