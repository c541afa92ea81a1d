package publish

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

const (
	// DefaultFrames is libach's number of frames in a channel.
	DefaultFrames = 16

	maxRate = 10_000 // in Hz
	maxSize = 64 << 20
)

// Stream is one channel to publish, with its rate in Hz, its frame size in bytes and the number of frames that it holds.
type Stream struct {
	Name   string
	Rate   float64
	Size   int
	Frames int // 0 means DefaultFrames
}

// parseStream parses one argument, such as imu:1000:64 or camera:10:1MiB.
func parseStream(text string) (Stream, error) {
	fields := strings.Split(text, ":")
	if len(fields) != 3 {
		return Stream{}, fmt.Errorf("%q: want CHANNEL:HZ:SIZE, as in imu:1000:64", text)
	}
	if err := localach.CheckName(fields[0]); err != nil {
		return Stream{}, fmt.Errorf("%q: %w", text, err)
	}
	rate, err := strconv.ParseFloat(fields[1], 64)
	if err != nil || !(rate >= 0.01 && rate <= maxRate) {
		return Stream{}, fmt.Errorf("%q: rate %q: want 0.01 to %d Hz", text, fields[1], maxRate)
	}
	var size ui.Size
	if err := size.Set(fields[2]); err != nil {
		return Stream{}, fmt.Errorf("%q: %w", text, err)
	}
	if size < 1 || size > maxSize {
		return Stream{}, fmt.Errorf("%q: size %q: want 1 to %s", text, fields[2], ui.Bytes(maxSize))
	}
	return Stream{Name: fields[0], Rate: rate, Size: int(size)}, nil
}

// ParseStreams parses the arguments of the command. It returns all their errors.
func ParseStreams(texts []string) ([]Stream, error) {
	var list []Stream
	var errs []error
	seen := map[string]bool{}
	for _, text := range texts {
		s, err := parseStream(text)
		if err == nil && seen[s.Name] {
			err = fmt.Errorf("%q: channel %s is named twice", text, s.Name)
		}
		seen[s.Name] = true
		list, errs = append(list, s), append(errs, err)
	}
	return list, errors.Join(errs...)
}

func (s Stream) geometry() localach.Geometry {
	return localach.Geometry{FrameCount: cmp.Or(s.Frames, DefaultFrames), FrameSize: s.Size}.Grow()
}

// layout returns the layout of the frames, with the fields that fit into a frame. The random bytes after the fields belong to no
// field. A frame that is too small for any field has one field for its bytes.
func (s Stream) layout() *layout.Layout {
	l := &layout.Layout{Name: "test_data", Size: s.Size}
	for _, f := range []layout.Field{
		{Name: "count", Offset: countAt, Type: layout.Uint64},
		{Name: "clock", Offset: clockAt, Type: layout.Uint64, Unit: "ns"},
		{Name: "sine", Offset: sineAt, Type: layout.Double},
	} {
		if f.Offset+f.Type.OwnSize() <= s.Size {
			l.Fields = append(l.Fields, f)
		}
	}
	if l.Fields == nil {
		l.Fields = []layout.Field{{Name: "random", Type: layout.Bytes, Size: s.Size}}
	}
	return l
}
