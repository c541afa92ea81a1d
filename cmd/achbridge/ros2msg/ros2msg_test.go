package ros2msg_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/ros2msg"
)

var fieldLine = regexp.MustCompile(`^([a-z0-9]+|achbridge/[A-Za-z][A-Za-z0-9_]*)(?:\[(\d+)\])? [A-Za-z][A-Za-z0-9_]*(=-?\d+)?(?:  # .*)?$`)

var sizes = map[string]int{"int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8}

// decoder reads CDR by a definition, as a program that has only the definition. It knows nothing of layouts.
type decoder struct {
	types   map[string][]string // lines of each type
	message []byte              // after the encapsulation
	at      int
	out     []byte // bytes of all numbers, one after another
}

func decode(text string, message []byte) ([]byte, error) {
	if !bytes.HasPrefix(message, []byte{0, 1, 0, 0}) {
		return nil, fmt.Errorf("%x does not begin with the encapsulation of CDR in little-endian", message)
	}
	d := decoder{types: map[string][]string{}, message: message[4:]}
	for _, part := range strings.Split(text, strings.Repeat("=", 80)+"\n") {
		name := ""
		if rest, ok := strings.CutPrefix(part, "MSG: "); ok {
			name, part, _ = strings.Cut(rest, "\n")
		}
		d.types[name] = strings.Split(strings.TrimSuffix(part, "\n"), "\n")
	}
	if err := d.read(""); err != nil {
		return nil, err
	}
	if d.at != len(d.message) {
		return nil, fmt.Errorf("%d bytes are left", len(d.message)-d.at)
	}
	return d.out, nil
}

func (d *decoder) read(name string) error {
	for _, line := range d.types[name] {
		m := fieldLine.FindStringSubmatch(line)
		if m == nil {
			return fmt.Errorf("line %q is no field", line)
		}
		if m[3] != "" {
			continue // a constant
		}
		count := 1
		if m[2] != "" {
			count, _ = strconv.Atoi(m[2])
		}
		for range count {
			size, isNumber := sizes[m[1]]
			if !isNumber {
				if d.types[m[1]] == nil {
					return fmt.Errorf("type %s is not defined", m[1])
				}
				if err := d.read(m[1]); err != nil {
					return err
				}
				continue
			}
			d.at = (d.at + size - 1) / size * size
			if d.at+size > len(d.message) {
				return fmt.Errorf("%q ends beyond the message", line)
			}
			d.out = append(d.out, d.message[d.at:d.at+size]...)
			d.at += size
		}
	}
	return nil
}

// FuzzCDR writes frames of each valid layout as messages of ROS 2. A decoder by the definition finds all bytes of the frame, in
// their order.
func FuzzCDR(f *testing.F) {
	for _, l := range []layout.Layout{
		{Name: "packed", Size: 17, Fields: []layout.Field{{Name: "kind", Type: layout.Uint8}, {Name: "stamp", Offset: 1, Type: layout.Uint64}, {Name: "acc", Offset: 9, Type: layout.Float, Count: []int{2}}}},
		{Name: "aligned", Size: 24, Fields: []layout.Field{{Name: "a", Type: layout.Uint8}, {Name: "s", Offset: 8, Type: layout.Struct, Size: 8, Count: []int{2}, Fields: []layout.Field{{Name: "x", Type: layout.Int32}, {Name: "y", Offset: 4, Type: layout.Bool}}}}},
		{Name: "odd", Size: 22, Fields: []layout.Field{{Name: "s", Offset: 1, Type: layout.Struct, Size: 7, Count: []int{3}, Fields: []layout.Field{{Name: "d", Offset: 2, Type: layout.Float}, {Name: "b", Type: layout.Uint8, Bits: 3}}}}},
		{Name: "stride", Size: 18, Fields: []layout.Field{{Name: "s", Type: layout.Struct, Size: 9, Count: []int{2}, Fields: []layout.Field{{Name: "d", Type: layout.Double}}}}},
	} {
		text, err := json.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	}
	f.Fuzz(func(t *testing.T, text, frame []byte) {
		var l layout.Layout
		if json.Unmarshal(text, &l) != nil || len(l.Check()) > 0 || l.Tail != "" || l.Variants != nil || l.Descriptors != nil || l.Size > 1<<16 {
			return
		}
		m, err := ros2msg.Of(&l)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		frame = append(frame, make([]byte, l.Size)...)[:l.Size]
		b, err := m.Append([]byte("before"), frame)
		if err != nil || !bytes.HasPrefix(b, []byte("before")) {
			t.Fatalf("%s: got %x, %v, want a message after what was there", text, b, err)
		}
		got, err := decode(m.Text, b[len("before"):])
		if err != nil || !bytes.Equal(got, frame) {
			t.Errorf("%s\n%s\n%x: got %x, %v, want %x", text, m.Text, b, got, err, frame)
		}
		if _, err := m.Append(nil, append(frame, 0)); err == nil {
			t.Errorf("%s: a frame that is too long gives a message", text)
		}
	})
}

// The expected bytes are made by hand by the rules of CDR: numbers are aligned from the end of the encapsulation.
func TestUnalignedStructIsAligned(t *testing.T) {
	l := layout.Layout{Name: "packed", Size: 9, Fields: []layout.Field{{Name: "kind", Type: layout.Uint8}, {Name: "stamp", Offset: 1, Type: layout.Uint64}}}
	if p := l.Check(); len(p) > 0 {
		t.Fatal(p)
	}
	m, err := ros2msg.Of(&l)
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.Append(nil, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	if got, want := hex.EncodeToString(b), "00010000"+"0100000000000000"+"0203040506070809"; err != nil || got != want || m.Name != "achbridge/msg/packed" {
		t.Errorf("got %s, %s, %v, want achbridge/msg/packed, %s", m.Name, got, err, want)
	}
}
