package layout

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// gains is a layout with each type of value that can be set.
func gains(t testing.TB) *Layout {
	t.Helper()
	l := &Layout{Name: "gains", Size: 80, Fields: []Field{
		{Name: "kp", Type: Double, Offset: 0},
		{Name: "ki", Type: Float, Offset: 8, Scale: 0.001},
		{Name: "mode", Type: Uint8, Offset: 12, Words: []Word{{0, "OFF"}, {3, "HOLD"}}},
		{Name: "on", Type: Bool, Offset: 13},
		{Name: "low", Type: Uint16, Offset: 14, Bits: 5, Bit: 0},
		{Name: "high", Type: Int16, Offset: 14, Bits: 6, Bit: 5},
		{Name: "name", Type: Char, Offset: 16, Count: []int{8}},
		{Name: "joints", Type: Struct, Offset: 24, Size: 16, Count: []int{3}, Fields: []Field{
			{Name: "limit", Type: Int32, Offset: 0, Scale: 0.01},
			{Name: "trims", Type: Int16, Offset: 4, Count: []int{2, 3}},
		}},
		{Name: "key", Type: Bytes, Size: 8, Offset: 72},
	}}
	if found := l.Check(); len(found) > 0 {
		t.Fatal(found[0].Text)
	}
	return l
}

func TestSetChangesOneValue(t *testing.T) {
	for _, test := range []struct{ path, text, want string }{
		{"kp", "1.25", "1.25"},
		{"kp", "-0", "-0"},
		{"ki", "2", "2"},
		{"mode", "HOLD", "HOLD"},
		{"mode", "3", "HOLD"},
		{"mode", "0x7", "7"},
		{"on", "true", "true"},
		{"low", "31", "31"},
		{"high", "-32", "-32"},
		{"name", "left arm", "left arm"},
		{"name", "arm", "arm"},
		{"joints[2].limit", "-3.5", "-3.5"},
		{"joints[1].trims[1][2]", "-32768", "-32768"},
		{"key", "00112233445566ff", "00112233445566ff"},
	} {
		l := gains(t)
		frame := bytes.Repeat([]byte{0x55}, l.Size)
		before := texts(t, l, frame)
		find(t, l, frame, test.path).set(t, test.text)
		after := texts(t, l, frame)
		if got := find(t, l, frame, test.path).Text(); got != test.want {
			t.Errorf("%s = %s: got %s, want %s", test.path, test.text, got, test.want)
		}
		changed := 0
		for path, text := range after {
			if before[path] != text {
				changed++
			}
		}
		if changed != 1 {
			t.Errorf("%s = %s changes %d values, want 1", test.path, test.text, changed)
		}
	}
}

type found struct{ Value }

func (f found) set(t *testing.T, text string) {
	t.Helper()
	if err := f.Set(text); err != nil {
		t.Fatal(err)
	}
}

func find(t *testing.T, l *Layout, frame []byte, path string) found {
	t.Helper()
	root, err := l.Decode(frame)
	if err == nil {
		root, err = root.Find(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return found{root}
}

// texts returns the single values of a frame, by path.
func texts(t *testing.T, l *Layout, frame []byte) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, path := range strings.Fields(`kp ki mode on low high name key joints[0].limit joints[1].limit joints[2].limit
		joints[0].trims[0][0] joints[1].trims[1][2] joints[1].trims[1][1] joints[2].trims[0][2]`) {
		all[path] = find(t, l, frame, path).Text()
	}
	return all
}

func TestSetRefusesWrongValues(t *testing.T) {
	for _, test := range []struct{ path, text, want string }{
		{"kp", "fast", "want a finite number"},
		{"kp", "NaN", "want a finite number"},
		{"kp", "1e999", "want a finite number"},
		{"ki", "1e300", "too large for a float"},
		{"mode", "STOP", "want an integer from 0 to 255"},
		{"mode", "256", "want an integer from 0 to 255"},
		{"on", "maybe", "want true or false"},
		{"low", "32", "want an integer from 0 to 31"},
		{"high", "32", "want an integer from -32 to 31"},
		{"name", "right arm", "want a text of at most 8 bytes"},
		{"joints[0].limit", "1e12", "want an integer from -2147483648 to 2147483647"},
		{"key", "0011", "want 8 bytes in hexadecimal"},
	} {
		l := gains(t)
		frame := bytes.Repeat([]byte{0x55}, l.Size)
		before := slices.Clone(frame)
		err := find(t, l, frame, test.path).Set(test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s = %s: got error %v, want %s", test.path, test.text, err, test.want)
		}
		if !bytes.Equal(before, frame) {
			t.Errorf("%s = %s: the frame has changed", test.path, test.text)
		}
	}
}

func TestFindRefusesAllButSingleValues(t *testing.T) {
	l := gains(t)
	root, err := l.Decode(make([]byte, l.Size))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "kd", "kp.x", "joints", "joints[0]", "joints[3].limit", "joints[-1].limit", "joints[x].limit", "joints[0].trims[0]", "kp[0]", "joints[0", "joints[].limit", "kp[", "on]", ".kp", "name[0]"} {
		if v, err := root.Find(path); err == nil {
			t.Errorf("%q: got %s, want an error", path, v.Text())
		}
	}
}

func TestIsEqualComparesValues(t *testing.T) {
	l := gains(t)
	frame := make([]byte, l.Size)
	find(t, l, frame, "kp").set(t, "1")
	before := slices.Clone(frame)
	for text, want := range map[string]bool{"1": true, "1.0": true, "1e0": true, "1.1": false} {
		if got, err := find(t, l, frame, "kp").IsEqual(text); got != want || err != nil {
			t.Errorf("1 and %s: got %v, %v, want %v", text, got, err, want)
		}
	}
	if _, err := find(t, l, frame, "kp").IsEqual("one"); err == nil {
		t.Error("one: got no error")
	}
	if !bytes.Equal(before, frame) {
		t.Error("IsEqual has changed the frame")
	}
}

func FuzzSet(f *testing.F) {
	f.Add("joints[1].trims[1][2]", "-7", []byte{1, 2, 3})
	f.Add("kp", "1.5", []byte{})
	f.Fuzz(func(t *testing.T, path, text string, start []byte) {
		l := gains(t)
		frame := make([]byte, l.Size)
		copy(frame, start)
		before := slices.Clone(frame)
		root, err := l.Decode(frame)
		if err != nil {
			t.Fatal(err)
		}
		v, err := root.Find(path)
		if err != nil {
			return
		}
		if err := v.Set(text); err != nil {
			if !bytes.Equal(before, frame) {
				t.Errorf("%s = %q fails and changes the frame", path, text)
			}
			return
		}
		if equal, err := v.IsEqual(text); !equal || err != nil {
			t.Errorf("%s = %q: not equal afterwards, %v", path, text, err)
		}
	})
}
