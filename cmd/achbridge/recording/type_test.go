package recording

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/foxglove/mcap/go/mcap"

	"achbridge/bridge/layout"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/config"
)

func imuType(t testing.TB) *Type {
	t.Helper()
	kind, err := NewType(&layout.Layout{Name: "imu", Size: 16, Fields: []layout.Field{{Name: "n", Type: layout.Uint32}, {Name: "a b", Offset: 8, Type: layout.Double}}}, status.TypeFromFile)
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// typedFile writes a file with one frame, which has a layout, and returns its path.
func typedFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "typed.mcap")
	w, err := newWriter(path, map[string]string{"host": "host"})
	if err != nil {
		t.Fatal(err)
	}
	err = w.frame(Topic{Channel: "imu", FrameCount: 16, FrameSize: 64, Mode: "0660", Type: imuType(t)}, message(1, fixedNow()))
	if _, ended := w.close(); err != nil || ended != nil {
		t.Fatal(err, ended)
	}
	return path
}

// Other programs see the topic's schema and the bytes as they were in the ring. Frames with a
// mismatch have no schema.
func TestChannelWithLayoutHasSchemaAndRawBytes(t *testing.T) {
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	imu := create(t, dir, "imu", 16, 64)
	kind := imuType(t)
	create(t, dir, "other", 16, 64).put(1)
	end := record(t, Config{Dir: dir, Files: Files{Path: path}, Type: func(channel, _ string) (*Type, error) {
		if channel == "imu" {
			return kind, nil
		}
		return nil, nil
	}})
	there(t, path, "other", 1)
	frames := [][]byte{[]byte("sixteen bytes, a"), []byte("no sixteen"), []byte("sixteen bytes, b")}
	for _, f := range frames {
		if _, err := imu.w.Put(f); err != nil {
			t.Fatal(err)
		}
	}
	there(t, path, "imu", 3)
	if _, err := end(); err != nil {
		t.Fatal(err)
	}
	r := library(t, path)
	it, err := r.Messages(mcap.WithTopics([]string{"imu"}), mcap.UsingIndex(true))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		s, c, m, err := it.NextInto(nil)
		if errors.Is(err, io.EOF) {
			if i != len(frames) {
				t.Errorf("got only %d messages", i)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Data) != string(frames[i]) {
			t.Errorf("frame %d: got %q", i, m.Data)
		}
		typed := s != nil && s.Encoding == "ros1msg" && s.Name == "achbridge/imu" && string(s.Data) == kind.Schema.Text && c.MessageEncoding == "ros1"
		plain := s == nil && c.MessageEncoding == "" && c.Metadata["type"] == ""
		if i == 1 && !plain || i != 1 && !typed {
			t.Errorf("frame %d: got schema %+v of channel %+v", i, s, c)
		}
	}
	s := summary(t, path)
	c := s.Channels[0]
	if c.Type != "achbridge/imu" || c.Mismatches != 1 || c.Frames != 3 || !slices.Equal(c.Renamed, kind.Renamed) || len(c.Renamed) != 1 || s.Channels[1].Type != "" {
		t.Errorf("got %+v", s.Channels)
	}
}

// Other programs see the descriptors of a protobuf message, and its bytes as they were in the ring.
func TestProtobufChannelHasItsDescriptorsAsSchema(t *testing.T) {
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{
		"imu.proto": `syntax = "proto3"; package robot; message Imu { int32 n = 1; }`,
	})}}
	files, err := c.Compile(t.Context(), "imu.proto")
	if err != nil {
		t.Fatal(err)
	}
	l, err := layout.OfMessage(files[0].Messages().Get(0))
	if err != nil {
		t.Fatal(err)
	}
	kind, err := NewType(l, status.TypeFromFile)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "run.mcap")
	w, err := newWriter(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	topic, frame := Topic{Channel: "imu", Type: kind}, "\x08\x07"
	if err := kind.fits([]byte(frame)); err != nil {
		t.Fatal(err)
	}
	m := message(1, fixedNow())
	m.Data = []byte(frame)
	err = w.frame(topic, m)
	if _, ended := w.close(); err != nil || ended != nil {
		t.Fatal(err, ended)
	}
	it, err := library(t, path).Messages(mcap.UsingIndex(true))
	if err != nil {
		t.Fatal(err)
	}
	schema, channel, got, err := it.NextInto(nil)
	if err != nil || string(got.Data) != frame || schema.Encoding != "protobuf" || schema.Name != "robot.Imu" || string(schema.Data) != string(l.Descriptors) || channel.MessageEncoding != "protobuf" {
		t.Errorf("got %+v, %+v, %v", schema, channel, err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	record, err := r.Next()
	if err != nil || record.Topic.Type == nil {
		t.Fatalf("got %+v, %v", record, err)
	}
	again, err := config.ReadLayout(path, []byte(record.Topic.Type.Layout))
	if err != nil || !again.Same(l) || record.Topic.Type.Schema != kind.Schema {
		t.Errorf("got %v, %v, want the layout that was written", again, err)
	}
}

func TestSizeLimitIncludesSchemas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.mcap")
	l := &layout.Layout{Name: "large", Size: 800, Fields: nil}
	for i := range 100 {
		l.Fields = append(l.Fields, layout.Field{Name: "field" + strings.Repeat("x", 30) + string(rune('a'+i/26)) + string(rune('a'+i%26)), Offset: 8 * i, Type: layout.Double})
	}
	const most = 64 << 10
	f := files{Files: Files{Path: path, MaxSize: most, Facts: map[string]string{}}, now: fixedNow}
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		kind, err := NewType(l, status.TypeFromFile)
		if err != nil {
			t.Fatal(err)
		}
		topic := Topic{Channel: "c" + string(rune('a'+n)), FrameCount: 1, FrameSize: 800, Mode: "0660", Type: kind}
		if err := f.frame(topic, message(uint64(n), fixedNow())); err != nil {
			t.Fatal(err)
		}
		if err := f.w.flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	for _, m := range f.made {
		if m.Bytes > most {
			t.Errorf("%s: got %d bytes, want at most %d", m.Path, m.Bytes, most)
		}
	}
	if len(f.made) < 3 {
		t.Errorf("got %d files, want several", len(f.made))
	}
}

func fixedNow() time.Time { return time.Unix(1000, 0) }

// The file may be hostile: only plain text is shown.
func TestInvalidLayoutsOfFileAreNotShown(t *testing.T) {
	for _, m := range []map[string]string{
		{"type": "a\x1b[2J"}, {"type": "a", "no_schema": "\n"}, {"type": "a", "renamed": "x"}, {"type": "a", "renamed": `[{"field":"a","as":"\u001b"}]`}, {},
	} {
		if got := typeOf(m, nil); got != nil {
			t.Errorf("%q: got %+v", m, got)
		}
	}
}
