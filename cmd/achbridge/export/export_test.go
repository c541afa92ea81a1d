package export

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/foxglove/mcap/go/mcap"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/recording"
)

// recorded is a file that somebody has made, with a frame of each channel.
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

func TestAForeignFileWritesNothingOutside(t *testing.T) {
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
		t.Errorf("there is %v", list)
	}
}

func TestAFailedExportLeavesNothing(t *testing.T) {
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
		t.Errorf("got %v, %v", made, err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("there is %v", list)
	}
}
