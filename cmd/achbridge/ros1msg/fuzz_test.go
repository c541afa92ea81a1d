package ros1msg_test

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/ros1msg"
)

var fieldLine = regexp.MustCompile(`^([a-z0-9]+|achbridge/[A-Za-z][A-Za-z0-9_]*)(?:\[(\d+)\])? ([A-Za-z][A-Za-z0-9_]*)(=-?\d+)?(?:  # .*)?$`)

var sizes = map[string]int{"int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8}

// FuzzSchema writes the definition of each valid layout, and checks that ROS 1 can read it: each
// line is valid, no name occurs twice, and the definition has as many bytes as the struct.
func FuzzSchema(f *testing.F) {
	for _, l := range []layout.Layout{
		{Name: "a b", Size: 8, Fields: []layout.Field{{Name: "x", Type: layout.Int16, Words: []layout.Word{{Value: 1, Name: "x"}}}, {Name: "padding_2", Offset: 4, Type: layout.Char}}},
		{Name: "t", Size: 24, Fields: []layout.Field{{Name: "b", Type: layout.Int64, Bit: 5, Bits: 64}, {Name: "s", Offset: 16, Type: layout.Struct, Size: 4, Count: []int{2},
			Fields: []layout.Field{{Name: "-", Type: layout.Float}}}}},
	} {
		text, err := json.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var l layout.Layout
		if json.Unmarshal(text, &l) != nil || len(l.Check()) > 0 {
			return
		}
		s, err := ros1msg.Of(&l)
		if (err != nil) != (l.Tail != "" || l.Variants != nil) {
			t.Fatalf("%s: got %v, want an error only for a layout with a tail or variants", text, err)
		}
		if err == nil {
			if n := sizeOf(t, s); n != l.Size {
				t.Errorf("%s\ngot %d bytes, want the struct's %d", s.Text, n, l.Size)
			}
		}
	})
}

// sizeOf returns the size in bytes of a message with this definition.
func sizeOf(t *testing.T, s *ros1msg.Schema) int {
	parts := strings.Split(s.Text, strings.Repeat("=", 80)+"\n")
	known := map[string]int{}
	for i := len(parts) - 1; i >= 0; i-- { // a type precedes the types of its fields
		name := s.Name
		if i > 0 {
			head, body, _ := strings.Cut(parts[i], "\n")
			name, parts[i] = strings.TrimPrefix(head, "MSG: "), body
		}
		if _, twice := known[name]; twice {
			t.Errorf("%s\ntype %s occurs twice", s.Text, name)
		}
		size, names := 0, map[string]bool{}
		for line := range strings.Lines(parts[i]) {
			m := fieldLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if m == nil || names[m[3]] {
				t.Fatalf("%s\nline %q: invalid in ROS 1, or its name occurs twice", s.Text, line)
			}
			names[m[3]] = true
			each, ok := sizes[m[1]]
			if !ok {
				if each, ok = known[m[1]]; !ok {
					t.Fatalf("%s\ntype %s is not defined", s.Text, m[1])
				}
			}
			n := 1
			if m[2] != "" {
				n, _ = strconv.Atoi(m[2])
			}
			if m[4] == "" {
				size += n * each
			}
		}
		known[name] = size
	}
	return known[s.Name]
}
