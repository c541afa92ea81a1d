package localach

import (
	"errors"
	"strings"
	"testing"
)

func TestGeometryCheck(t *testing.T) {
	tests := []struct {
		geometry Geometry
		hint     string // text in the error; empty means usable
	}{
		{Geometry{16, 512}, ""},
		{Geometry{1, 1}, ""},
		{Geometry{1, 3728}, ""},
		{Geometry{1, 3760}, ""},
		{Geometry{16, 212}, "16x213"},
		{Geometry{1, 3752}, "1x3753"},
		{Geometry{2, 1864}, "2x1865"},
		{Geometry{0, 8}, "at least 1"},
		{Geometry{8, 0}, "at least 1"},
		{Geometry{-1, 8}, "at least 1"},
		{Geometry{1<<20 + 1, 1}, "1048576 frames"},
		{Geometry{1 << 20, 1 << 20}, "1024 MiB"},
		{Geometry{2, 1 << 62}, "1024 MiB"},
		{Geometry{1, int(^uint(0) >> 1)}, "1024 MiB"},
	}
	for _, test := range tests {
		err := test.geometry.Check()
		if test.hint == "" {
			if err != nil {
				t.Errorf("%v: got %v, want nil", test.geometry, err)
			}
			continue
		}
		if !errors.Is(err, ErrGeometry) || !strings.Contains(err.Error(), test.hint) {
			t.Errorf("%v: got %v, want ErrGeometry with %q", test.geometry, err, test.hint)
		}
	}
}

func TestGrowReturnsNextUsableGeometry(t *testing.T) {
	for _, test := range []struct{ from, want Geometry }{
		{Geometry{16, 512}, Geometry{16, 512}},
		{Geometry{16, 212}, Geometry{16, 213}},
		{Geometry{1, 3729}, Geometry{1, 3753}},
		{Geometry{0, 1}, Geometry{0, 1}},
	} {
		if got := test.from.Grow(); got != test.want {
			t.Errorf("%v: got %v, want %v", test.from, got, test.want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "imu", "krang.imu", "-x", "A_9", strings.Repeat("n", 63)} {
		if err := CheckName(good); err != nil {
			t.Errorf("%q: got %v, want nil", good, err)
		}
	}
	for _, bad := range []string{"", ".", ".imu", "a/b", "../x", "a b", "imu:1", "größe", "a\x00", strings.Repeat("n", 64)} {
		if err := CheckName(bad); !errors.Is(err, ErrName) {
			t.Errorf("%q: got %v, want %v", bad, err, ErrName)
		}
		for op, call := range map[string]func() error{
			"Open":   func() error { _, err := Shm.Open(bad); return err },
			"Create": func() error { _, err := Shm.Create(bad, CreateConfig{}); return err },
			"Unlink": func() error { return Shm.Unlink(bad) },
		} {
			if err := call(); !errors.Is(err, ErrName) {
				t.Errorf("%s(%q): got %v, want %v", op, bad, err, ErrName)
			}
		}
	}
}
