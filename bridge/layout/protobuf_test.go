package layout

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// message compiles .proto files and returns the descriptor of a message in robot.proto.
func message(t testing.TB, files map[string]string, name string) protoreflect.MessageDescriptor {
	t.Helper()
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(files)})}
	list, err := c.Compile(context.Background(), "robot.proto")
	if err != nil {
		t.Fatal(err)
	}
	found, err := list.AsResolver().FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		t.Fatal(err)
	}
	return found.(protoreflect.MessageDescriptor)
}

// ofProto returns the layout of message M of a .proto file.
func ofProto(t testing.TB, text string) *Layout {
	t.Helper()
	l, err := OfMessage(message(t, map[string]string{"robot.proto": text}, "M"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const allKinds = `syntax = "proto2";
enum Mode { IDLE = 0; TROT = 2; WALK = 2 [deprecated = true]; BACK = -3; option allow_alias = true; }
message M {
  optional double d = 1; optional float f = 2;
  optional int32 i = 3; optional int64 i64 = 4; optional uint32 u = 5; optional uint64 u64 = 6;
  optional sint32 s = 7; optional sint64 s64 = 8; optional fixed32 x = 9; optional fixed64 x64 = 10;
  optional sfixed32 y = 11; optional sfixed64 y64 = 12; optional bool b = 13;
  optional string t = 14; optional bytes raw = 15; optional Mode mode = 16;
  repeated int32 list = 17; repeated int32 packed = 18 [packed = true];
  optional Sub sub = 19; repeated Sub subs = 20; map<string, int32> named = 21; map<sint32, Sub> numbered = 22; map<bool, bool> flags = 23;
  oneof one { int32 a = 24; string c = 25; }
  optional group Extra = 26 { optional int32 g = 1; }
  optional M inner = 27;
}
message Sub { optional float v = 1; }
`

// frame encodes a protobuf message. parts are pairs of a field number and a value; the Go type of the value selects the wire type.
func frame(parts ...any) (b []byte) {
	for i := 0; i < len(parts); i += 2 {
		n := protowire.Number(parts[i].(int))
		switch v := parts[i+1].(type) {
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
		case float32:
			b = protowire.AppendFixed32(protowire.AppendTag(b, n, protowire.Fixed32Type), math.Float32bits(v))
		case uint32:
			b = protowire.AppendFixed32(protowire.AppendTag(b, n, protowire.Fixed32Type), v)
		case float64:
			b = protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), math.Float64bits(v))
		case uint64:
			b = protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), v)
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
		case group:
			b = protowire.AppendGroup(protowire.AppendTag(b, n, protowire.StartGroupType), n, v)
		}
	}
	return b
}

// group is the encoded content of a protobuf group.
type group []byte

func TestProtobufFrameShowsItsValues(t *testing.T) {
	l := ofProto(t, allKinds)
	for _, c := range []struct {
		name, want string
		frame      []byte
	}{
		{"nothing", "{list:[] packed:[] subs:[] named:[] numbered:[] flags:[]}", nil},
		{"reals", "d:-2.5 f:0.1", frame(1, -2.5, 2, float32(0.1))},
		{"integers", "i:-1 i64:-1 u:4294967295 u64:18446744073709551615 ", frame(3, -1, 4, -1, 5, math.MaxUint32, 6, -1)},
		{"zigzag", "s:-2 s64:-3 ", frame(7, 3, 8, 5)},
		{"fixed", "x:7 x64:8 y:-1 y64:-1 ", frame(9, uint32(7), 10, uint64(8), 11, uint32(math.MaxUint32), 12, uint64(math.MaxUint64))},
		{"bool", "b:true ", frame(13, 1)},
		{"text", "t:a\x00b raw:00ff ", frame(14, "a\x00b", 15, "\x00\xff")},
		{"mode", "mode:TROT ", frame(16, 2)},
		{"negative mode", "mode:BACK ", frame(16, -3)},
		{"list", "list:[1 -2] packed:[3 4] ", frame(17, 1, 17, -2, 18, "\x03\x04")},
		{"packed otherwise", "list:[1 2] packed:[3 4] ", frame(17, "\x01\x02", 18, 3, 18, 4)},
		{"message", "sub:{v:0.5} ", frame(19, frame(1, float32(0.5)))},
		{"merged message", "sub:{v:1.5} ", frame(19, frame(1, float32(0.5)), 19, frame(1, float32(1.5)))},
		{"messages", "subs:[{v:0.5} {}] ", frame(20, frame(1, float32(0.5)), 20, "")},
		{"map", "named:[{key:a value:2} {key:b value:1}] ", frame(21, frame(1, "b", 2, 1), 21, frame(1, "a", 2, 2))},
		{"map of messages", "numbered:[{key:-1 value:{}} {key:1 value:{v:2}}] ", frame(22, frame(1, 2, 2, frame(1, float32(2))), 22, frame(1, 1))},
		{"map of flags", "flags:[{key:false value:true} {key:true value:false}]", frame(23, frame(1, 1), 23, frame(2, 1))},
		{"last of oneof", "c:x", frame(24, 1, 25, "x")},
		{"group", "extra:{g:5}", frame(26, group(frame(1, 5)))},
		{"message in itself", "inner:{i:1 list", frame(27, frame(3, 1))},
		{"unknown field", "{i:1 list:", frame(3, 1, 1000, "newer", 1001, group(frame(1, 5)))},
	} {
		v, err := l.Decode(c.frame)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := shown(v); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestProto3FieldsWithoutPresenceHaveDefaults(t *testing.T) {
	l := ofProto(t, `syntax = "proto3"; message M { int32 i = 1; optional int32 o = 2; string t = 3; M m = 4; repeated double q = 5; }`)
	v, err := l.Decode(frame(5, binaryDoubles(0.5, 1)))
	if got := shown(v); err != nil || got != "{i:0 t: q:[0.5 1]}" {
		t.Errorf("got %s, %v", got, err)
	}
}

func binaryDoubles(list ...float64) (b []byte) {
	for _, x := range list {
		b = protowire.AppendFixed64(b, math.Float64bits(x))
	}
	return b
}

func TestOtherMessagesAreNotDecoded(t *testing.T) {
	deep := func(n int) (b []byte) {
		for range n {
			b = frame(27, b)
		}
		return b
	}
	kinds := ofProto(t, allKinds)
	required := ofProto(t, `syntax = "proto2"; message M { optional int32 a = 1; required int32 b = 2; required M m = 3; }`)
	strict := ofProto(t, `syntax = "proto3"; message M { string t = 1; }`)
	for _, c := range []struct {
		name  string
		l     *Layout
		frame []byte
		want  string
	}{
		{"struct", kinds, make([]byte, 64), "64 bytes are not a M: it ends within a field"},
		{"truncated", kinds, frame(15, "12345")[:4], "it ends within a field"},
		{"end of a group", kinds, []byte{0x0c}, "it ends within a field"},
		{"another wire type", kinds, frame(1, 5), "field 1 has wire type 0, want 1"},
		{"text as message", kinds, frame(19, "text"), "it ends within a field"},
		{"group as message", kinds, frame(19, group(nil)), "field 19 has wire type 3, want 2"},
		{"packed list that ends", kinds, frame(18, "\x80"), "it ends within a field"},
		{"32 levels", kinds, deep(31), ""},
		{"33 levels", kinds, deep(32), "more than 32 levels of nested messages"},
		{"10000 levels", kinds, deep(10000), "more than 32 levels of nested messages"},
		{"required", required, frame(1, 2), "the required field 2 is missing"},
		{"required below", required, frame(2, 1, 3, frame(2, 1)), "the required field 3 is missing"},
		{"no UTF-8", strict, frame(1, "\xff"), "field 1 is not UTF-8"},
		{"many numbers", kinds, frame(18, strings.Repeat("\x01", maxValues)), "more than 1048576 values"},
		{"many messages", kinds, slices.Repeat(frame(20, ""), maxValues/2), "more than 1048576 values"},
	} {
		_, err := c.l.Decode(c.frame)
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %q", c.name, got, c.want)
		}
		fit := c.l.Fit()
		if again := fit.Check(len(c.frame), c.frame); fmt.Sprint(again) != fmt.Sprint(err) || !fit.ByContent() {
			t.Errorf("%s: Fit: got %v, want %v", c.name, again, err)
		}
	}
	if n := testing.AllocsPerRun(10, func() { _ = kinds.protobuf.fit.check(frame2) }); n > 0 {
		t.Errorf("a check allocates %v times", n)
	}
}

var frame2 = frame(17, 1, 20, frame(1, float32(0.5)), 14, "text")

func TestLayoutOfMessageOmitsUnusedTypes(t *testing.T) {
	files := map[string]string{
		"robot.proto": `syntax = "proto3"; package robot.v1; import public "lib/arm.proto"; import "google/protobuf/timestamp.proto"; import "google/protobuf/descriptor.proto";
			extend google.protobuf.FieldOptions { string unit = 50000; }
			// A long comment.
			message M { Holder.Used used = 1 [(unit) = "m", deprecated = true]; optional lib.Mode mode = 2; google.protobuf.Timestamp at = 3; reserved 9; oneof o { int32 a = 4; } optional int32 p = 5; map<string, M> m = 6; }
			message Holder { message Used { Kind kind = 1; enum Kind { NONE = 0; } } message Waste { int32 w = 1; } int32 h = 1; }
			message Waste { lib.Huge huge = 1; } service S { rpc Call(Waste) returns (Waste); }`,
		"lib/arm.proto":  `syntax = "proto2"; package lib; import public "lib/mode.proto"; import public "lib/huge.proto"; message Arm { optional Huge huge = 1; }`,
		"lib/mode.proto": `edition = "2023"; package lib; enum Mode { option features.enum_type = OPEN; IDLE = 0; RUN = 1; }`,
		"lib/huge.proto": `syntax = "proto2"; package lib; message Huge { optional bytes b = 1; }`,
	}
	l, err := OfMessage(message(t, files, "robot.v1.M"))
	if err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(l.Descriptors, set); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range set.File {
		names = append(names, fmt.Sprint(f.GetName(), f.Dependency))
	}
	if got, want := strings.Join(names, " "), "google/protobuf/timestamp.proto[] lib/mode.proto[] robot.proto[google/protobuf/timestamp.proto lib/mode.proto]"; got != want {
		t.Errorf("files: got %s, want %s", got, want)
	}
	text := string(l.Descriptors)
	for _, unused := range []string{"Waste", "comment", "Huge", "50000", "Arm", "unit", "Call"} {
		if strings.Contains(text, unused) {
			t.Errorf("%q is in the descriptors", unused)
		}
	}
	v, err := l.Decode(frame(1, frame(1, 0), 2, 1, 3, frame(1, 7), 6, frame(1, "k")))
	if want := "{used:{kind:NONE} mode:RUN at:{seconds:7 nanos:0} m:[{key:k value:{m:[]}}]}"; err != nil || shown(v) != want {
		t.Errorf("got %s, %v, want %s", shown(v), err, want)
	}
	encoded, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := DecodeLayout(encoded)
	if err != nil || !again.Same(l) || again.String() != "robot.v1.M" {
		t.Errorf("got %v, %v, want the same layout", again, err)
	}
}

// descriptors returns the encoded descriptors of a file after change has made it invalid.
func descriptors(t testing.TB, change func(*descriptorpb.FileDescriptorProto)) []byte {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(ofProto(t, allKinds).Descriptors, set); err != nil {
		t.Fatal(err)
	}
	change(set.File[0])
	b, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ofEdition returns a change that sets the edition, and the path of a test file of the protobuf library, whose edition the library
// does not check.
func ofEdition(e descriptorpb.Edition) func(*descriptorpb.FileDescriptorProto) {
	return func(f *descriptorpb.FileDescriptorProto) {
		f.Name, f.Syntax, f.Edition = proto.String("cmd/protoc-gen-go/testdata/m.proto"), proto.String("editions"), &e
	}
}

// manyFields returns a change that adds n fields to message M.
func manyFields(n int) func(*descriptorpb.FileDescriptorProto) {
	return func(f *descriptorpb.FileDescriptorProto) {
		m := f.MessageType[0]
		m.Field = m.Field[:1]
		m.NestedType, m.OneofDecl = nil, nil
		for i := range n {
			one := proto.Clone(m.Field[0]).(*descriptorpb.FieldDescriptorProto)
			one.Number, one.Name = proto.Int32(int32(100+i)), proto.String(fmt.Sprintf("a%d", i))
			m.Field = append(m.Field, one)
		}
	}
}

// publicImports returns descriptors whose last files import the first ones on 2^levels paths.
func publicImports(t testing.TB, levels int) []byte {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{Name: proto.String("m"), MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}}}}}
	for i := range levels {
		for _, name := range []string{"a", "b"} {
			f := &descriptorpb.FileDescriptorProto{Name: proto.String(fmt.Sprint(name, i))}
			if i > 0 {
				f.Dependency, f.PublicDependency = []string{fmt.Sprint("a", i-1), fmt.Sprint("b", i-1)}, []int32{0, 1}
			}
			set.File = append(set.File, f)
		}
	}
	b, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestHostileDescriptorsAreRefused(t *testing.T) {
	good := ofProto(t, allKinds).Descriptors
	for _, c := range []struct {
		name string
		l    Layout
		want string
	}{
		{"no descriptors", Layout{Name: "M", Descriptors: []byte("text")}, "want a FileDescriptorSet"},
		{"an empty set", Layout{Name: "M", Descriptors: []byte{}}, `no message "M"`},
		{"another message", Layout{Name: "N", Descriptors: good}, `no message "N"`},
		{"an enumeration", Layout{Name: "Mode", Descriptors: good}, `no message "Mode"`},
		{"a field", Layout{Name: "M.d", Descriptors: good}, `no message "M.d"`},
		{"an escape sequence", Layout{Name: "M\x1b", Descriptors: good}, `has the character '\x1b'`},
		{"large", Layout{Name: "M", Descriptors: make([]byte, maxDescriptors+1)}, "want at most 48128"},
		{"a size", Layout{Name: "M", Size: 4, Descriptors: good}, "descriptors replaces size"},
		{"variants", Layout{Name: "M", Descriptors: good, Variants: []Variant{{}}}, "descriptors replaces size"},
		{"as variant", Layout{Name: "M", Variants: []Variant{{Layout: Layout{Name: "M", Descriptors: good}}}}, "must be a struct, not"},
		{"a file that is missing", Layout{Name: "M", Descriptors: descriptors(t, func(f *descriptorpb.FileDescriptorProto) { f.Dependency = []string{"x\x1b"} })}, "descriptors: "},
		{"a file with a long name that is missing", Layout{Name: "M", Descriptors: descriptors(t, func(f *descriptorpb.FileDescriptorProto) { f.Dependency = []string{strings.Repeat("x", 40000)} })}, "..."},
		{"a file in itself", Layout{Name: "M", Descriptors: descriptors(t, func(f *descriptorpb.FileDescriptorProto) { f.Dependency = []string{f.GetName()} })}, "descriptors: "},
		{"a type that is missing", Layout{Name: "M", Descriptors: descriptors(t, func(f *descriptorpb.FileDescriptorProto) { f.MessageType = f.MessageType[:1] })}, "descriptors: "},
		{"a name with an escape sequence", Layout{Name: "M", Descriptors: descriptors(t, func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field[0].Name = proto.String("x\x1b") })}, "descriptors: "},
		{"a long name", Layout{Name: "M", Descriptors: descriptors(t, func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[0].Field[0].Name = proto.String(strings.Repeat("x", 256))
		})}, "more than 255 bytes"},
		{"a long word", Layout{Name: "M", Descriptors: descriptors(t, func(f *descriptorpb.FileDescriptorProto) {
			f.EnumType[0].Value[0].Name = proto.String(strings.Repeat("x", 256))
		})}, "more than 255 bytes"},
		{"a number twice", Layout{Name: "M", Descriptors: descriptors(t, func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field[0].Number = proto.Int32(2) })}, "descriptors: "},
		{"a message set", Layout{Name: "M", Descriptors: descriptors(t, func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[0].Options = &descriptorpb.MessageOptions{MessageSetWireFormat: proto.Bool(true)}
		})}, "descriptors: "},
		{"public imports", Layout{Name: "M", Descriptors: publicImports(t, 40)}, "want no public imports"},
		{"a type without its scope", Layout{Name: "M", Descriptors: descriptors(t, func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[0].Field[0].Type, f.MessageType[0].Field[0].TypeName = nil, proto.String("M")
		})}, "want full names of types"},
		{"a long package", Layout{Name: "M", Descriptors: descriptors(t, func(f *descriptorpb.FileDescriptorProto) { f.Package = proto.String(strings.Repeat("a.", 127) + "a") })}, "more than 255 bytes"},
		{"an extension", Layout{Name: "M", Descriptors: descriptors(t, func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[0].Extension = f.MessageType[0].Field[:1]
		})}, "want no extensions"},
		{"a service", Layout{Name: "M", Descriptors: descriptors(t, func(f *descriptorpb.FileDescriptorProto) {
			f.Service = []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S")}}
		})}, "want no public imports, extensions or services"},
		{"an edition that ends the process", Layout{Name: "M", Descriptors: descriptors(t, ofEdition(0))}, "edition 0 is not known"},
		{"an edition that panics", Layout{Name: "M", Descriptors: descriptors(t, ofEdition(5))}, "edition 5 is not known"},
		{"4097 fields", Layout{Name: "M", Descriptors: descriptors(t, manyFields(4096))}, "want at most"},
	} {
		found := c.l.Check()
		if !slices.ContainsFunc(found, func(p Problem) bool { return strings.Contains(p.Text, c.want) }) {
			t.Errorf("%s: got %v, want a problem with %q", c.name, found, c.want)
		}
		for _, p := range found {
			if len(p.Text) > 2*maxErrorText {
				t.Errorf("%s: got a text of %d bytes", c.name, len(p.Text))
			}
			if strings.ContainsAny(p.Text, "\x1b\n") {
				t.Errorf("%s: %q is not safe to display", c.name, p.Text)
			}
		}
	}
}

// For their size, descriptors with many fields need the most memory. Of a layout from another host, the node keeps only the Fit, which
// must be small.
func TestHostileDescriptorsCostLittleMemory(t *testing.T) {
	encoded := descriptors(t, manyFields(3000))
	if len(encoded) > maxDescriptors || len(encoded) < maxDescriptors*3/4 {
		t.Fatalf("%d bytes of descriptors", len(encoded))
	}
	var before, compiled, kept runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l := &Layout{Name: "M", Descriptors: encoded}
	if found := l.Check(); len(found) > 0 {
		t.Fatal(found)
	}
	runtime.ReadMemStats(&compiled)
	fit := l.Fit()
	l = nil
	runtime.GC()
	runtime.ReadMemStats(&kept)
	if got := compiled.TotalAlloc - before.TotalAlloc; got > 16<<20 {
		t.Errorf("compiling took %d bytes", got)
	}
	if got := int64(kept.HeapAlloc) - int64(before.HeapAlloc); got > 256<<10 {
		t.Errorf("the check keeps %d bytes", got)
	}
	runtime.KeepAlive(fit)
}

// FuzzProtobuf decodes arbitrary frames with arbitrary descriptors of another host.
func FuzzProtobuf(f *testing.F) {
	for _, text := range []string{allKinds, `syntax = "proto3"; message M { repeated M m = 1; map<int32, M> n = 2; string t = 3; }`, `edition = "2023"; message M { M m = 1 [features.message_encoding = DELIMITED]; int32 r = 2 [features.field_presence = LEGACY_REQUIRED]; }`} {
		l := ofProto(f, text)
		f.Add(l.Descriptors, frame2)
		f.Add(l.Descriptors, frame(27, frame(3, 1, 21, frame(1, "b", 2, 1)), 26, group(frame(1, 5)), 18, "\x01\x02"))
	}
	f.Fuzz(func(t *testing.T, descriptors, frame []byte) {
		l := &Layout{Name: "M", Descriptors: descriptors}
		if len(l.Check()) > 0 {
			return
		}
		if _, err := l.Encode(); err != nil {
			t.Fatalf("a layout that passed Check: %v", err)
		}
		fit := l.Fit()
		v, err := l.Decode(frame)
		if (err == nil) != (fit.Check(len(frame), frame) == nil) {
			t.Fatalf("Decode: %v, Fit: %v", err, fit.Check(len(frame), frame))
		}
		if err == nil && len(frame) < 1<<12 {
			shown(v)
		}
	})
}
