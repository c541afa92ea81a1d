package layout

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Limits of protobuf layouts and frames.
const (
	maxDescriptors = 47 << 10 // size of Descriptors in bytes; in Base64 they fit into a layout file of MaxText bytes
	maxNested      = 32       // levels of nested messages in a frame
	maxValues      = 1 << 20  // elements of lists, and fields of all messages in a frame, present or not
	maxErrorText   = 300      // size in bytes of an error text of the protobuf library
)

// protobuf is the compiled form of a layout with Descriptors. It is immutable.
type protobuf struct {
	root protoreflect.MessageDescriptor
	// fields has the fields of the messages that frames can contain. Field.Fields refers to these slices, so that a
	// message can contain itself.
	fields map[protoreflect.FullName][]Field
	fit    *wireMessage
}

// compileProtobuf compiles a layout with Descriptors. The error is safe to display.
func compileProtobuf(l *Layout) (*protobuf, error) {
	if len(l.Descriptors) > maxDescriptors {
		return nil, fmt.Errorf("descriptors of %d bytes: want at most %d", len(l.Descriptors), maxDescriptors)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if (proto.UnmarshalOptions{RecursionLimit: 100, DiscardUnknown: true}).Unmarshal(l.Descriptors, set) != nil {
		return nil, errors.New("descriptors: want a FileDescriptorSet of protobuf")
	}
	if err := checkDescriptors(set); err != nil {
		return nil, err
	}
	files, err := ProtobufFiles(set)
	if err != nil {
		return nil, fmt.Errorf("descriptors: %s", ProtobufError(err))
	}
	found, err := files.FindDescriptorByName(protoreflect.FullName(l.Name))
	root, isMessage := found.(protoreflect.MessageDescriptor)
	if err != nil || !isMessage {
		return nil, fmt.Errorf("descriptors: no message %s", strconv.QuoteToASCII(l.Name))
	}
	c := &protobufCompiler{fields: map[protoreflect.FullName][]Field{}, words: map[protoreflect.FullName][]Word{}, fits: map[protoreflect.FullName]*wireMessage{}}
	fit, err := c.message(root)
	if err != nil {
		return nil, err
	}
	return &protobuf{root, c.fields, fit}, nil
}

// checkDescriptors refuses descriptors that would keep the protobuf library busy for very long. OfMessage does not make such
// descriptors. The library follows public imports on all paths. Unless the name of a type begins with a dot, it searches for the
// type in all scopes around the field.
func checkDescriptors(set *descriptorpb.FileDescriptorSet) error {
	for _, f := range set.File {
		if len(f.PublicDependency)+len(f.Extension)+len(f.Service) > 0 {
			return errors.New("descriptors: want no public imports, extensions or services")
		}
		if err := checkMessages(f.GetPackage(), f.MessageType); err != nil {
			return err
		}
	}
	return nil
}

// checkMessages checks the messages that are declared in a scope.
func checkMessages(scope string, list []*descriptorpb.DescriptorProto) error {
	for _, m := range list {
		name := scope + "." + m.GetName()
		if len(name) > 1+maxFullName {
			return fmt.Errorf("descriptors: the name of a message has more than %d bytes", maxFullName)
		}
		if len(m.Extension) > 0 {
			return errors.New("descriptors: want no extensions")
		}
		for _, f := range m.Field {
			if f.TypeName != nil && !strings.HasPrefix(*f.TypeName, ".") {
				return errors.New("descriptors: want full names of types, as in .robot.State")
			}
		}
		if err := checkMessages(name, m.NestedType); err != nil {
			return err
		}
	}
	return nil
}

// ProtobufFiles returns the files of an untrusted set. Use it instead of protodesc.NewFiles: if a file has the path of one of the
// library's own test files, NewFiles does not check its edition, and an unknown edition then panics or ends the process.
func ProtobufFiles(set *descriptorpb.FileDescriptorSet) (*protoregistry.Files, error) {
	for _, f := range set.File {
		if e := f.GetEdition(); f.GetSyntax() == "editions" && e != descriptorpb.Edition_EDITION_2023 && e != descriptorpb.Edition_EDITION_2024 {
			return nil, fmt.Errorf("%s: edition %d is not known; want 2023 or 2024", f.GetName(), e)
		}
	}
	return protodesc.NewFiles(set)
}

// ProtobufError returns the text of an error of the protobuf library as printable ASCII. It cuts long texts, since they may quote
// names of any length. The library puts no-break spaces into its texts at random; ProtobufError replaces them by spaces.
func ProtobufError(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	quoted := strconv.QuoteToASCII(strings.TrimPrefix(text, "proto: "))
	text = strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	if len(text) > maxErrorText {
		text = text[:maxErrorText] + "..."
	}
	return text
}

// protobufCompiler collects the parts of a compiled layout, by the full name of their message or enumeration.
type protobufCompiler struct {
	fields                map[protoreflect.FullName][]Field
	words                 map[protoreflect.FullName][]Word
	fits                  map[protoreflect.FullName]*wireMessage
	fieldCount, wordCount int
}

// message compiles a message type and the types that it contains.
func (c *protobufCompiler) message(m protoreflect.MessageDescriptor) (*wireMessage, error) {
	if known := c.fits[m.FullName()]; known != nil {
		return known, nil
	}
	list, fit := make([]Field, m.Fields().Len()), &wireMessage{}
	c.fields[m.FullName()], c.fits[m.FullName()] = list, fit
	if c.fieldCount += len(list); c.fieldCount > MaxFields {
		return nil, fmt.Errorf("more than %d fields", MaxFields)
	}
	for i := range list {
		d := m.Fields().Get(i)
		f := Field{Name: string(d.Name()), Type: protobufTypes[d.Kind()], open: d.Cardinality() == protoreflect.Repeated, descriptor: d}
		if len(f.Name) > maxFullName {
			return nil, fmt.Errorf("the name of a field has more than %d bytes", maxFullName)
		}
		var sub *wireMessage
		var err error
		switch {
		case f.Type == Struct:
			if sub, err = c.message(d.Message()); err != nil {
				return nil, err
			}
			f.Fields = c.fields[d.Message().FullName()]
		case d.Enum() != nil:
			if f.Words, err = c.enumeration(d.Enum()); err != nil {
				return nil, err
			}
		}
		list[i] = f
		fit.add(d, sub)
	}
	fit.sort()
	return fit, nil
}

// maxFullName is the maximum length in bytes of the names of messages, fields and values of protobuf enumerations. The names
// consist of letters, digits, _ and dots.
const maxFullName = 255

func (c *protobufCompiler) enumeration(e protoreflect.EnumDescriptor) ([]Word, error) {
	if words, known := c.words[e.FullName()]; known {
		return words, nil
	}
	if c.wordCount += e.Values().Len(); c.wordCount > MaxFields {
		return nil, fmt.Errorf("more than %d values of enumerations", MaxFields)
	}
	words := []Word{}
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		if len(v.Name()) > maxFullName {
			return nil, fmt.Errorf("the name of an enumeration's value has more than %d bytes", maxFullName)
		}
		words = append(words, Word{int64(v.Number()), string(v.Name())})
	}
	c.words[e.FullName()] = words
	return words, nil
}

var protobufTypes = map[protoreflect.Kind]Type{
	protoreflect.BoolKind: Bool, protoreflect.EnumKind: Int32,
	protoreflect.Int32Kind: Int32, protoreflect.Sint32Kind: Int32, protoreflect.Sfixed32Kind: Int32,
	protoreflect.Uint32Kind: Uint32, protoreflect.Fixed32Kind: Uint32,
	protoreflect.Int64Kind: Int64, protoreflect.Sint64Kind: Int64, protoreflect.Sfixed64Kind: Int64,
	protoreflect.Uint64Kind: Uint64, protoreflect.Fixed64Kind: Uint64,
	protoreflect.FloatKind: Float, protoreflect.DoubleKind: Double,
	protoreflect.StringKind: String, protoreflect.BytesKind: Bytes,
	protoreflect.MessageKind: Struct, protoreflect.GroupKind: Struct,
}

// Message returns the type of the frames' protobuf messages, or nil if frames are structs. The layout must have passed Check.
func (l *Layout) Message() protoreflect.MessageDescriptor {
	if l.protobuf == nil {
		return nil
	}
	return l.protobuf.root
}

// checkProtobuf checks a layout with Descriptors and sets its field protobuf.
func (c *checker) checkProtobuf(l *Layout) {
	if l.Size != 0 || l.Fields != nil || l.Tail != "" || l.Counter != "" || l.By != "" || l.Variants != nil {
		c.add(nil, "descriptors replaces size, fields, tail, count, by and layouts: remove these, or descriptors")
		return
	}
	compiled, err := compileProtobuf(l)
	if err != nil {
		c.add(nil, "%v", err)
	}
	l.protobuf = compiled
}

// rootField returns a field that describes the whole frame, as a struct.
func (p *protobuf) rootField() *Field {
	return &Field{Name: string(p.root.FullName()), Type: Struct, Fields: p.fields[p.root.FullName()]}
}

// decode returns the value of a frame, which must match p.fit.
func (p *protobuf) decode(frame []byte) (Value, error) {
	m := dynamicpb.NewMessage(p.root)
	err := proto.UnmarshalOptions{
		AllowPartial: true, // p.fit has checked required fields, see wireMessage.check
		Resolver:     (*protoregistry.Types)(nil), DiscardUnknown: true, RecursionLimit: maxNested + 1,
	}.Unmarshal(frame, m)
	if err != nil {
		return Value{}, fmt.Errorf("the frame is not a %s: %s", p.root.FullName(), ProtobufError(err))
	}
	return Value{field: p.rootField(), message: m}, nil
}

// protobufMember returns the value of field i of v, which is a protobuf message or an entry of a map.
func (v Value) protobufMember(i int) Value {
	f := &v.field.Fields[i]
	d := f.descriptor
	switch {
	case v.elements != nil: // an entry of a map
		return v.elements[i]
	case v.message == nil && f.open:
		return Value{field: f, isList: true}
	case v.message == nil || d.HasPresence() && !v.message.Has(d):
		return Value{field: f, absent: true}
	case d.IsMap():
		return mapValue(f, v.message.Get(d).Map())
	case d.IsList():
		return Value{field: f, isList: true, list: v.message.Get(d).List()}
	}
	return protobufValue(f, v.message.Get(d))
}

// protobufValue returns a single value of field f.
func protobufValue(f *Field, from protoreflect.Value) Value {
	switch f.descriptor.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return Value{field: f, message: from.Message()}
	case protoreflect.StringKind:
		return Value{field: f, data: []byte(from.String())}
	case protoreflect.BytesKind:
		return Value{field: f, data: from.Bytes()}
	}
	return Value{field: f, data: binary.LittleEndian.AppendUint64(nil, protobufBits(f, from))}
}

// protobufBits returns the bits of a number, boolean or enumeration as C stores them, sign-extended to 64 bits.
func protobufBits(f *Field, from protoreflect.Value) uint64 {
	switch {
	case f.descriptor.Kind() == protoreflect.EnumKind:
		return uint64(from.Enum())
	case f.Type == Bool && from.Bool():
		return 1
	case f.Type == Bool:
		return 0
	case f.Type == Float:
		return uint64(math.Float32bits(float32(from.Float())))
	case f.Type == Double:
		return math.Float64bits(from.Float())
	case f.Type.signed():
		return uint64(from.Int())
	}
	return from.Uint()
}

// mapValue returns the entries of a map, sorted by their keys.
func mapValue(f *Field, entries protoreflect.Map) Value {
	v := Value{field: f, isList: true}
	entries.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		v.elements = append(v.elements, Value{field: f, elements: []Value{
			protobufValue(&f.Fields[0], key.Value()), protobufValue(&f.Fields[1], value),
		}})
		return true
	})
	slices.SortFunc(v.elements, func(a, b Value) int {
		x, y := a.elements[0], b.elements[0]
		switch {
		case x.field.Type == String:
			return slices.Compare(x.data, y.data)
		case x.field.Type.signed():
			return cmp.Compare(int64(x.extended()), int64(y.extended()))
		}
		return cmp.Compare(x.extended(), y.extended()) // unsigned integers and booleans
	})
	return v
}
