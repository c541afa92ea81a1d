package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"achbridge/bridge/layout"
)

func TestLayoutFileRoundTrip(t *testing.T) {
	l := &layout.Layout{Name: "robot::Vec(double, 3)", Size: 64, Tail: "null", Counter: "on", Fields: []layout.Field{
		{Name: "on", Type: layout.Int16},
		{Name: "true", Offset: 2, Type: layout.Int8, Words: []layout.Word{{Value: -1, Name: "a=b"}, {Value: 2, Name: "~"}}},
		{Name: "odd: name", Offset: 4, Type: layout.Uint32, Bits: 3, Bit: 5, Unit: "# 100%"},
		{Name: "1", Offset: 8, Type: layout.Float, Count: []int{2, 1}, Scale: 0.001, Unit: "m/s^2"},
		{Name: "s", Offset: 16, Type: layout.Struct, Size: 8, Count: []int{2}, Union: true, Fields: []layout.Field{{Name: "y", Type: layout.Bytes, Size: 3}}},
		{Name: "null", Offset: 64, Type: layout.Double},
	}}
	short := layout.Layout{Name: "short", Size: 2, Fields: []layout.Field{{Name: "on", Type: layout.Int16}}}
	path := layout.Layout{Name: "path", Size: 8, Tail: "x", Counter: "h.rows*h.cols", Fields: []layout.Field{
		{Name: "h", Type: layout.Struct, Size: 4, Fields: []layout.Field{{Name: "rows", Type: layout.Uint16}, {Name: "cols", Offset: 2, Type: layout.Uint16}}},
		{Name: "x", Offset: 4, Type: layout.Float},
	}}
	for _, l := range []*layout.Layout{
		l, &path, {Name: "by size", Variants: []layout.Variant{{Layout: short}, {Layout: *l}, {Layout: path}}},
		{Name: "by value", By: "on", Variants: []layout.Variant{{Value: -3, Layout: short}, {Layout: *l}}},
	} {
		text, err := LayoutText(l, "one\ntwo\n")
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadLayout("a.yaml", text)
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("%v: got %+v, want %+v, of\n%s", err, got, l, text)
		}
	}
}

func FuzzLayoutFile(f *testing.F) {
	f.Add([]byte("name: imu\nsize: 8\nfields:\n  - {name: a, offset: 0, type: int32, words: [A=1], bits: 3, bit: 1}\n  - {name: b, offset: 4, type: char, count: [2, 2]}\n"))
	f.Add([]byte("name: p\nsize: 4\ntail: x\ncount: n\nfields:\n  - {name: n, offset: 0, type: int32}\n  - name: x\n    offset: 4\n    type: struct\n    size: 4\n    fields: [{name: a, offset: 0, type: float, unit: m, scale: 1e3}]\n"))
	f.Add([]byte("name: a\nby: k\nlayouts:\n  - {value: 0x10, name: b, size: 1, fields: [{name: k, offset: 0, type: int8}]}\n  - name: c\n    size: 2\n    tail: x\n    count: k*k\n    fields: [{name: k, offset: 0, type: int8}, {name: x, offset: 1, type: char}]\n"))
	f.Add([]byte("fields: [fields: [fields: [fields: []]]]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ReadLayout("fuzz.yaml", text)
		if err == nil {
			again, err := LayoutText(l, "")
			if err != nil && len(text) < 10_000 {
				t.Fatalf("got %v for a valid layout\n%s", err, text)
			}
			if same, err := ReadLayout("fuzz.yaml", again); err == nil && !reflect.DeepEqual(same, l) {
				t.Errorf("got %+v, want %+v", same, l)
			}
			return
		}
		ps, ok := errors.AsType[Problems](err)
		if !ok || len(ps) == 0 {
			t.Fatalf("got %v, want problems", err)
		}
		for _, p := range ps {
			if p.Text == "" || p.Line < 0 || p.Line > 1+bytes.Count(text, []byte("\n"))+bytes.Count(text, []byte("\r")) {
				t.Errorf("got problem %+v, want it to have a line in\n%s", p, text)
			}
		}
	})
}

// A layout that a peer sends can be written to a recording, whatever its size.
func TestLargestDescriptorsFitIntoLayoutFile(t *testing.T) {
	name := strings.Repeat("M", layout.MaxName)
	m := &descriptorpb.DescriptorProto{Name: &name}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{Name: proto.String("m"), MessageType: []*descriptorpb.DescriptorProto{m}}}}
	var largest *layout.Layout
	for i := range 4000 {
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
			Name: proto.String(fmt.Sprintf("%c%04d", 'a', i)), Number: proto.Int32(int32(i + 1)), Type: descriptorpb.FieldDescriptorProto_TYPE_BOOL.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		})
		if i < 2700 {
			continue
		}
		descriptors, err := proto.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		l := &layout.Layout{Name: name, Descriptors: descriptors}
		if len(l.Check()) > 0 {
			break
		}
		largest = l
	}
	if _, err := LayoutText(largest, ""); err != nil || len(largest.Descriptors) < 40<<10 {
		t.Errorf("%d bytes of descriptors: %v", len(largest.Descriptors), err)
	}
}

func TestUnshiftedStampsAreReported(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "goal.yaml"), []byte("name: goal\nsize: 16\nfields:\n  - {name: stamp_ns, offset: 0, type: int64}\n  - {name: v, offset: 8, type: double}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"mirror: [robot/goal]":                             "mirror[0]: the frames of robot/goal seem to have time stamps",
		"mirror: [{match: robot/goal, stamps: none}]":      "",
		"mirror: [{match: robot/goal, stamps: sns}]":       "",
		"mirror: [robot/imu, 'robot/*']":                   "",
		"accept: [goal]":                                   "accept[0]: the frames of goal seem to have time stamps",
		"accept: [{match: goal, stamps: none}]":            "",
		"push: [goal robot]":                               `set stamps: "time:stamp_ns", or none, unless the accept rule of robot has the option`,
		"push: [{match: goal, hosts: robot, stamps: sns}]": "",
	} {
		c, err := Source{Env: func(string) string { return "" }}.Read(filepath.Join(dir, "a.yaml"), []byte(text+"\ntypes: {'*goal': goal.yaml}\n"))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := strings.Join(c.Unshifted(), "\n"); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
