package debuginfo

import (
	"debug/dwarf"
	"errors"
	"fmt"
	"slices"

	"achbridge/bridge/layout"
)

// typeOf returns a field of the type that an entry names, without a name or offset. The field's
// Type is empty if the type has no bytes.
func (w *walker) typeOf(e *dwarf.Entry, depth int) (f layout.Field, err error) {
	if depth > maxDepth {
		return f, fmt.Errorf("more than %d types in one another", maxDepth)
	}
	switch at := e.Val(dwarf.AttrType).(type) {
	case dwarf.Offset:
		if e, err = w.entry(at); err != nil {
			return f, err
		}
	case nil:
		return f, errors.New("it has no type")
	default:
		return f, errors.New("its type is in a type unit; build without -fdebug-types-section")
	}
	size, _ := e.Val(dwarf.AttrByteSize).(int64)
	if size < 0 || size > 1<<30 {
		return f, fmt.Errorf("a type of %d bytes", size)
	}
	switch e.Tag {
	case dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagVolatileType, dwarf.TagRestrictType, dwarf.TagAtomicType:
		return w.typeOf(e, depth+1)
	case dwarf.TagBaseType:
		return w.number(e, int(size)), nil
	case dwarf.TagEnumerationType:
		return w.enumeration(e, int(size), depth)
	case dwarf.TagPointerType, dwarf.TagReferenceType, dwarf.TagRvalueReferenceType:
		if size == 0 || size == 8 {
			return layout.Field{Type: layout.Pointer}, nil
		}
	case dwarf.TagArrayType:
		return w.array(e, depth)
	case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType:
		return w.structure(e, int(size), depth)
	}
	if size == 0 {
		return f, fmt.Errorf("its type (%v) is not understood", e.Tag)
	}
	return layout.Field{Type: layout.Bytes, Size: int(size)}, nil
}

// structure returns a field for a struct or union. A Rust enum with data becomes bytes.
func (w *walker) structure(e *dwarf.Entry, size, depth int) (layout.Field, error) {
	fields, err := w.members(e, depth)
	switch {
	case errors.Is(err, errVariants):
		w.warn("%v: shown as bytes", err)
		fields = nil
	case err != nil:
		return layout.Field{}, err
	case w.open && depth > 0:
		return layout.Field{}, errors.New("an array without a length is not at the end")
	}
	switch {
	case size == 0:
		return layout.Field{}, nil
	case len(fields) == 0:
		return layout.Field{Type: layout.Bytes, Size: size}, nil
	}
	return layout.Field{Type: layout.Struct, Size: size, Fields: fields, Union: w.isFirst}, nil
}

// Encodings of numbers, from the standard (DW_ATE).
const (
	encodedBool         = 2
	encodedFloat        = 4
	encodedSigned       = 5
	encodedSignedChar   = 6
	encodedUnsigned     = 7
	encodedUnsignedChar = 8
	encodedUTF          = 16
)

func (w *walker) number(e *dwarf.Entry, size int) layout.Field {
	encoding, _ := e.Val(dwarf.AttrEncoding).(int64)
	name, _ := e.Val(dwarf.AttrName).(string)
	f := layout.Field{Type: layout.Bytes, Size: size}
	switch {
	case size == 0:
		return layout.Field{}
	case encoding == encodedBool && size == 1:
		f = layout.Field{Type: layout.Bool}
	case encoding == encodedFloat && size == 4:
		f = layout.Field{Type: layout.Float}
	case encoding == encodedFloat && size == 8:
		f = layout.Field{Type: layout.Double}
	case name == "char" && size == 1:
		f, w.char = layout.Field{Type: layout.Char}, whole(1, encoding == encodedSignedChar).Type
	case encoding == encodedSigned || encoding == encodedSignedChar:
		f = whole(size, true)
	case encoding == encodedUnsigned || encoding == encodedUnsignedChar || encoding == encodedUTF || encoding == encodedBool:
		f = whole(size, false)
	}
	if f.Type == layout.Bytes {
		w.warn("%s is shown as bytes", clean(name))
	}
	return f
}

// whole returns a field for an integer of size bytes, or for bytes if there is no such integer.
func whole(size int, signed bool) layout.Field {
	types := map[int]layout.Type{1: layout.Uint8, 2: layout.Uint16, 4: layout.Uint32, 8: layout.Uint64}
	if signed {
		types = map[int]layout.Type{1: layout.Int8, 2: layout.Int16, 4: layout.Int32, 8: layout.Int64}
	}
	if t, ok := types[size]; ok {
		return layout.Field{Type: t}
	}
	return layout.Field{Type: layout.Bytes, Size: size}
}

// enumeration returns a field for an enum. It is signed if a value is negative, or if the underlying type is signed.
func (w *walker) enumeration(e *dwarf.Entry, size, depth int) (layout.Field, error) {
	list, err := w.children(e)
	if err != nil {
		return layout.Field{}, err
	}
	var words []layout.Word
	signed, seen := false, map[int64]bool{}
	for _, c := range list {
		name, _ := c.Val(dwarf.AttrName).(string)
		value, ok := c.Val(dwarf.AttrConstValue).(int64)
		if c.Tag != dwarf.TagEnumerator || !ok || name == "" || seen[value] {
			continue // of two names for one value the first counts
		}
		if w.fields++; w.fields > layout.MaxFields {
			return layout.Field{}, fmt.Errorf("more than %d fields and words", layout.MaxFields)
		}
		signed, seen[value] = signed || value < 0, true
		words = append(words, layout.Word{Value: value, Name: clean(name)})
	}
	if under, err := w.typeOf(e, depth+1); err == nil {
		signed = signed || slices.Contains([]layout.Type{layout.Int8, layout.Int16, layout.Int32, layout.Int64}, under.Type)
	}
	f := whole(size, signed)
	if f.Type != layout.Bytes {
		f.Words = words
	}
	return f, nil
}

func (w *walker) array(e *dwarf.Entry, depth int) (layout.Field, error) {
	f, err := w.typeOf(e, depth+1)
	if err != nil {
		return f, err
	}
	list, err := w.children(e)
	if err != nil {
		return f, err
	}
	var count []int
	open := false
	for _, c := range list {
		if c.Tag != dwarf.TagSubrangeType {
			continue
		}
		n, ok := c.Val(dwarf.AttrCount).(int64)
		if last, hasLast := c.Val(dwarf.AttrUpperBound).(int64); !ok && hasLast {
			n, ok = last+1, true
		}
		switch {
		case (!ok || n == 0) && len(count) == 0 && !open:
			open = true
		case ok && n == 0:
			return layout.Field{}, nil // an array of length 0 has no bytes
		case n < 1 || n > 1<<30:
			return f, errors.New("the length of an array is not known")
		default:
			count = append(count, int(n))
		}
	}
	if open && f.Type != "" {
		w.open = true
	}
	f.Count = append(count, f.Count...)
	if f.Count = f.Count[:len(f.Count):len(f.Count)]; len(f.Count) == 0 {
		f.Count = nil
	}
	return f, nil
}
