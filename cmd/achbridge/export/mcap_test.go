package export

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/foxglove/mcap/go/mcap"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/recording"
)

func TestMCAPHasMessagesWithSchemas(t *testing.T) {
	file, dir := recorded(t, "imu", "legs", "raw"), t.TempDir()
	c := Config{File: file, Form: MCAP, Dir: dir, Note: func(string, ...any) {}, Layout: func(t recording.Topic) (*layout.Layout, error) {
		if t.Channel == "raw" {
			return nil, nil
		}
		return &layout.Layout{Name: t.Channel, Size: 1, Fields: []layout.Field{{Name: "n", Type: layout.Uint8}}}, nil
	}}
	made, err := c.Run(t.Context())
	if err != nil || len(made) != 1 || made[0].Frames != 2 || made[0].Path != filepath.Join(dir, "run.mcap") {
		t.Fatalf("got %v, %v", made, err)
	}
	out, err := os.Open(made[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	r, err := mcap.NewReader(out)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	messages, err := r.Messages(mcap.UsingIndex(true))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"imu", "legs"} {
		schema, channel, message, err := messages.NextInto(nil)
		if err != nil {
			t.Fatal(err)
		}
		if channel.Topic != name || channel.MessageEncoding != "protobuf" || schema.Encoding != "protobuf" || schema.Name != "achbridge."+name || channel.Metadata["ach"] != "" || message.LogTime != 1 {
			t.Errorf("%s: got %+v of %+v", name, channel, schema)
		}
		l := &layout.Layout{Name: schema.Name, Descriptors: schema.Data}
		if found := l.Check(); found != nil {
			t.Fatal(found)
		}
		v, err := l.Decode(message.Data)
		if err != nil || v.Field().Fields[0].Name != "n" || v.Member(0).Text() != "7" {
			t.Errorf("%s: got %x, %v, want n = 7", name, message.Data, err)
		}
	}
}
