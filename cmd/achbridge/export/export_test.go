package export

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/foxglove/mcap/go/mcap"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/recording"
)

// recorded writes a recording with another library, with one frame of each channel, and returns its path.
func recorded(t *testing.T, names ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.mcap")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := mcap.NewWriter(file, &mcap.WriterOptions{Chunked: true})
	if err != nil {
		t.Fatal(err)
	}
	err = w.WriteHeader(&mcap.Header{})
	for i, name := range names {
		id := uint16(i + 1)
		metadata := map[string]string{"ach": name, "frame_count": "4", "frame_size": "8"}
		err = errors.Join(err, w.WriteChannel(&mcap.Channel{ID: id, Topic: name, Metadata: metadata}),
			w.WriteMessage(&mcap.Message{ChannelID: id, LogTime: 1, PublishTime: 1, Data: []byte{7}}))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExportWritesOnlyInsideItsDirectory(t *testing.T) {
	file, dir := recorded(t, "../evil", "imu", "a/b", ".hidden", ""), filepath.Join(t.TempDir(), "out")
	l := &layout.Layout{Name: "n", Size: 1, Fields: []layout.Field{{Name: "n", Type: layout.Uint8}}}
	c := Config{File: file, Dir: dir, Note: func(string, ...any) {}, Layout: func(recording.Topic) (*layout.Layout, error) { return l, nil }}
	made, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []Made{{filepath.Join(dir, "imu.csv"), "imu", 1}}; fmt.Sprint(made) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", made, want)
	}
	if list, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); len(list) != 1 {
		t.Errorf("beside the export: got %v, want only %s", list, dir)
	}
}

func TestFailedExportLeavesNoFiles(t *testing.T) {
	file, dir := recorded(t, "imu", "legs"), t.TempDir()
	l := &layout.Layout{Name: "n", Size: 1, Fields: []layout.Field{{Name: "n", Type: layout.Uint8}}}
	broken := errors.New("broken")
	c := Config{File: file, Dir: dir, Note: func(string, ...any) {}, Layout: func(t recording.Topic) (*layout.Layout, error) {
		if t.Channel == "legs" {
			return nil, broken
		}
		return l, nil
	}}
	if made, err := c.Run(t.Context()); !errors.Is(err, broken) || made != nil {
		t.Errorf("got %v, %v, want %v", made, err, broken)
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("got files %v, want none", list)
	}
	c.Force = true
	before := filepath.Join(dir, "imu.csv")
	if err := os.WriteFile(before, []byte("an export of before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("with --force: got %v, want %v", err, broken)
	}
	list, _ := os.ReadDir(dir)
	if text, _ := os.ReadFile(before); string(text) != "an export of before" || len(list) != 1 {
		t.Errorf("with --force: got files %v, and the earlier export is %q, want it unchanged", list, text)
	}
}

// Frames with a later layout go into another file, even if both layouts have the same size. Frames
// with a mismatch, or without a layout, are omitted.
func TestEachLayoutOfChannelHasOwnFile(t *testing.T) {
	path, dir := filepath.Join(t.TempDir(), "run.mcap"), filepath.Join(t.TempDir(), "out")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := mcap.NewWriter(file, &mcap.WriterOptions{Chunked: true})
	if err != nil {
		t.Fatal(err)
	}
	err = w.WriteHeader(&mcap.Header{})
	for i, kind := range []string{"a", "b", "", "misfit"} {
		metadata := map[string]string{"ach": "imu", "frame_count": "4", "frame_size": "8"}
		switch kind {
		case "":
		case "misfit":
			metadata["misfit"] = "true"
		default:
			metadata["type"], metadata["layout"] = kind, kind
		}
		err = errors.Join(err, w.WriteChannel(&mcap.Channel{ID: uint16(i + 1), Topic: "imu", Metadata: metadata}))
	}
	for i, id := range []uint16{1, 2, 4, 1, 2, 3} {
		data := []byte{byte(i)}
		if id == 4 {
			data = []byte{7, 7}
		}
		err = errors.Join(err, w.WriteMessage(&mcap.Message{ChannelID: id, LogTime: uint64(i), PublishTime: uint64(i), Data: data}))
	}
	if err = errors.Join(err, w.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	var notes []string
	c := Config{File: path, Dir: dir, Note: func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) },
		Layout: func(t recording.Topic) (*layout.Layout, error) {
			switch {
			case t.Mismatch:
				return nil, errors.New("layout requested for frames with a mismatch")
			case t.Type == nil:
				return nil, nil
			}
			return &layout.Layout{Name: t.Type.Name, Size: 1, Fields: []layout.Field{{Name: t.Type.Name, Type: layout.Uint8}}}, nil
		}}
	made, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(dir, "imu.csv"), filepath.Join(dir, "imu-2.csv")
	if want := []Made{{second, "imu", 2}, {first, "imu", 2}}; fmt.Sprint(made) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", made, want)
	}
	for file, want := range map[string]string{first: "%time,a\nT,0\nT,3\n", second: "%time,b\nT,1\nT,4\n"} {
		text, _ := os.ReadFile(file)
		if got := regexp.MustCompile(`(?m)^[0-9][^,]*`).ReplaceAllString(string(text), "T"); got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
	for _, want := range []string{
		"imu: later frames have another type, b: they are in " + second,
		"imu: frames are left out: 2 bytes do not fit b, which has 1",
		"imu: 1 frames are left out: no layout says what the frames hold",
	} {
		if !slices.Contains(notes, want) {
			t.Errorf("got %q, want %q", notes, want)
		}
	}
}

// The second layout of imu and the first layout of imu-2 must not share a file.
func TestTableFileNamesDoNotCollide(t *testing.T) {
	dir := t.TempDir()
	e := &exporter{Config: Config{Dir: dir, Force: true, Note: func(string, ...any) {}}, tables: map[string]*table{}}
	defer e.close()
	l := &layout.Layout{Name: "a", Size: 1, Fields: []layout.Field{{Name: "a", Type: layout.Uint8}}}
	var got []string
	for _, name := range []string{"imu", "imu", "imu-2", "imu", "imu-2"} {
		made, err := e.begin(name, l)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.Base(made.Path))
	}
	if want := []string{"imu.csv", "imu-2.csv", "imu-2-2.csv", "imu-3.csv", "imu-2-3.csv"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
