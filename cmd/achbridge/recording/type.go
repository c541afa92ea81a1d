package recording

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/foxglove/mcap/go/mcap"

	"achbridge/bridge/layout"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ros1msg"
)

// Type describes the content of a topic's frames.
type Type struct {
	Name    string // achbridge/imu
	Layout  string // as its file has it
	Schema  Schema
	Why     string // reason why there is no Schema
	Renamed []ros1msg.Renamed
	From    status.TypeSource // empty in older recordings, which do not have it

	fits func(frame []byte) error
	of   *layout.Layout // nil for the type of a file that is read
}

// Schema is a description of frames for other programs.
type Schema struct {
	Encoding string // schema encoding of MCAP: ros1msg or protobuf; "" means that there is no schema
	Text     string // message definition of ROS 1, or encoded FileDescriptorSet of protobuf
}

// messageEncodings maps MCAP's schema encodings to the message encodings that belong to them.
var messageEncodings = map[string]string{"ros1msg": "ros1", "protobuf": "protobuf"}

// NewType returns the type of frames with a valid layout. It returns an error if the layout cannot be written as text.
func NewType(l *layout.Layout, from status.TypeSource) (*Type, error) {
	text, err := config.LayoutText(l, "")
	if err != nil {
		return nil, err
	}
	fit := l.Fit()
	t := &Type{Name: l.Name, Layout: string(text), From: from, of: l, fits: func(frame []byte) error { return fit.Check(len(frame), frame) }}
	if l.Descriptors != nil {
		t.Schema = Schema{"protobuf", string(l.Descriptors)}
		return t, nil
	}
	s, err := ros1msg.Of(l)
	if err != nil {
		t.Why = err.Error()
		return t, nil
	}
	t.Name, t.Schema, t.Renamed = s.Name, Schema{"ros1msg", s.Text}, s.Renamed
	return t, nil
}

// describe adds a type to the metadata of its topic.
func (t *Type) describe(metadata map[string]string) {
	if t == nil {
		return
	}
	metadata["type"], metadata["layout"], metadata["type_from"] = t.Name, t.Layout, string(t.From)
	if t.Why != "" {
		metadata["no_schema"] = t.Why
	}
	if t.Renamed != nil {
		text, _ := json.Marshal(t.Renamed)
		metadata["renamed"] = string(text)
	}
}

// size returns the bytes that a type uses in a file, each time that it is written.
func (t *Type) size() int64 {
	if t == nil {
		return 0
	}
	metadata := map[string]string{}
	t.describe(metadata)
	n := len(t.Schema.Text) + 100
	for key, value := range metadata {
		n += len(key) + len(value) + 8
	}
	return int64(n)
}

// typeOf returns the type in the metadata of a topic. It returns nil if there is none, or if the type
// may not be shown on a terminal.
func typeOf(metadata map[string]string, s *mcap.Schema) *Type {
	t := &Type{Name: metadata["type"], Layout: metadata["layout"], Why: metadata["no_schema"]}
	if t.Name == "" || !plain(t.Name) || !plain(t.Why) {
		return nil
	}
	if from := status.TypeSource(metadata["type_from"]); from == status.TypeFromFile || from == status.TypeFromOrigin {
		t.From = from
	}
	if s != nil {
		t.Schema = Schema{s.Encoding, string(s.Data)}
	}
	if text := metadata["renamed"]; text != "" && json.Unmarshal([]byte(text), &t.Renamed) != nil {
		return nil
	}
	if slices.ContainsFunc(t.Renamed, func(r ros1msg.Renamed) bool { return !plain(r.Field) || !plain(r.As) }) {
		return nil
	}
	return t
}

// Printable returns text of a file in a form that is safe on a terminal.

func Printable(text string) string {
	if plain(text) {
		return text
	}
	return strconv.QuoteToASCII(text)
}

// plain reports whether text is printable ASCII.
func plain(text string) bool {
	for _, r := range text {
		if r < ' ' || r > '~' {
			return false
		}
	}
	return true
}
