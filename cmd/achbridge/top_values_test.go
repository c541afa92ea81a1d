package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/view"
	"achbridge/localach"
)

func TestTopReadsNewestValues(t *testing.T) {
	t.Parallel()
	dir, shm := t.TempDir(), localach.Dir(t.TempDir())
	for file, text := range map[string]string{
		"achbridge.yaml": "types:\n  imu: imu.yaml\n  none: imu.yaml\n",
		"imu.yaml":       "name: imu\nsize: 2\nfields:\n  - {name: n, offset: 0, type: uint16, unit: V}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"imu", "log"} {
		ch, err := shm.Create(name, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: 8}})
		if err != nil {
			t.Fatal(err)
		}
		defer ch.Close()
		w := ch.Writer()
		defer w.Close()
		for _, frame := range []string{"\x01\x00", "\x07\x00"} {
			if _, err := w.Put([]byte(frame)); err != nil {
				t.Fatal(err)
			}
		}
	}
	a := &app{Host: view.Host{Dir: shm, Places: config.Places{Env: func(name string) string {
		return map[string]string{"ACHBRIDGE_CONFIG": filepath.Join(dir, "achbridge.yaml")}[name]
	}}}}
	a.control = filepath.Join(dir, "sock")
	look := a.newestValues()
	for name, want := range map[string][]string{"imu": {"values  imu, 2 bytes", "  n:  7 V"}, "log": nil, "none": nil} {
		size, got := look(t.Context(), name)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		if wantSize := map[string]int{"imu": 2, "log": 2}[name]; size != wantSize {
			t.Errorf("%s: got size %d, want %d", name, size, wantSize)
		}
	}
}
