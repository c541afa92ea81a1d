package recording

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ros1msg"
)

// Summary describes the content of a file.
type Summary struct {
	File     string           `json:"file"`
	Bytes    int64            `json:"bytes"`
	Complete bool             `json:"complete"` // false: the file was cut short, and this describes its whole chunks
	Host     string           `json:"host,omitempty"`
	Trigger  string           `json:"trigger,omitempty"` // reason for a snapshot
	Start    *time.Time       `json:"start"`             // the earliest log time of a frame; null without frames
	End      *time.Time       `json:"end"`               // the greatest log time of a frame
	Seconds  float64          `json:"duration_s"`
	Frames   uint64           `json:"frames"`
	Missed   uint64           `json:"missed"` // frames that the recorder was too late for
	Channels []ChannelSummary `json:"channels"`
}

// ChannelSummary describes one channel in a file.
type ChannelSummary struct {
	Channel    string  `json:"channel"`
	Origin     string  `json:"origin,omitempty"` // HOST/CHANNEL of a mirror
	FrameCount int     `json:"frame_count"`      // frame count of the channel; 0 if it is not an Ach channel
	FrameSize  int     `json:"frame_size"`
	Frames     uint64  `json:"frames"`
	Bytes      uint64  `json:"bytes"`
	SizeMin    int     `json:"size_min"`
	SizeMax    int     `json:"size_max"`
	Hz         float64 `json:"rate_hz"`
	Missed     uint64  `json:"missed"`
	// Type is what the frames hold, and Renamed are the fields that have other names in its schema.
	// NoSchema is the reason why it has no schema. Misfits counts frames that do not fit the type. TypeFrom is
	// the source of the layout: "file" or "origin".
	Type       string            `json:"type,omitempty"`
	TypeFrom   status.TypeSource `json:"type_from,omitempty"`
	Renamed    []ros1msg.Renamed `json:"renamed,omitempty"`
	NoSchema   string            `json:"no_schema,omitempty"`
	Mismatches uint64            `json:"misfits,omitempty"`
	// Late has the delays from the capture of frames until they were read; null means unknown.
	Late *Lateness `json:"late"`
	// Drops are frames that did not get into the mirror, by cause.
	Drops map[string]uint64 `json:"drops,omitempty"`

	first, last time.Time // earliest and latest log time of its frames
	mismatches  uint64
	late        time.Duration // sum of the delays of the frames counted by dated
	dated       uint64
}

// Lateness is the age of frames when the recorder read them.
type Lateness struct {
	MeanMs float64 `json:"mean_ms"`
	MaxMs  float64 `json:"max_ms"`
}

// Summarize reads a whole file. Of a file that was cut short it reads the whole chunks.
func Summarize(path string) (Summary, error) {
	r, err := Open(path)
	if err != nil {
		return Summary{}, err
	}
	defer r.Close()
	return r.summarize(path)
}

func (r *Reader) summarize(path string) (Summary, error) {
	s := Summary{File: path}
	if st, err := os.Stat(path); err == nil {
		s.Bytes = st.Size()
	}
	channels := map[string]*ChannelSummary{}
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, ErrCut) {
			s.Complete = errors.Is(err, io.EOF)
			break
		}
		if err != nil {
			return s, err
		}
		if err := r.keep(s.add(channels, record)); err != nil {
			return s, fmt.Errorf("%s: damaged: %w", path, err)
		}
	}
	s.Host, s.Trigger = r.Facts["host"], r.Facts["trigger"]
	s.finish(channels)
	return s, nil
}

// add adds a record. It returns how many bytes of it are kept.
func (s *Summary) add(channels map[string]*ChannelSummary, r Record) (kept int) {
	name := r.Name
	if r.Drop == nil && isOwn(name) {
		return 0
	}
	if r.Drop != nil {
		name = r.Drop.Channel
	}
	c := channels[name]
	if c == nil {
		c = &ChannelSummary{Channel: name}
		channels[name] = c
		kept = len(name)
	}
	switch {
	case r.Drop == nil:
		c.add(r)
		s.Frames++
		if s.Start == nil || r.Log.Before(*s.Start) {
			s.Start = &r.Log
		}
		if s.End == nil || r.Log.After(*s.End) {
			s.End = &r.Log
		}
	case r.Drop.Cause == "missed":
		c.Missed += r.Drop.Count
		s.Missed += r.Drop.Count
	default:
		if c.Drops == nil {
			c.Drops = map[string]uint64{}
		}
		if _, known := c.Drops[r.Drop.Cause]; !known {
			kept += len(r.Drop.Cause)
		}
		c.Drops[r.Drop.Cause] += r.Drop.Count
	}
	return kept
}

func (c *ChannelSummary) add(r Record) {
	n := len(r.Data)
	if c.Frames == 0 {
		c.first, c.last, c.SizeMin = r.Log, r.Log, n
	}
	if r.Log.Before(c.first) {
		c.first = r.Log
	}
	if r.Log.After(c.last) {
		c.last = r.Log
	}
	c.Frames++
	c.Bytes += uint64(n)
	c.SizeMin, c.SizeMax = min(c.SizeMin, n), max(c.SizeMax, n)
	if r.Topic == nil {
		return
	}
	c.FrameCount, c.FrameSize, c.Origin = r.Topic.FrameCount, r.Topic.FrameSize, cmp.Or(r.Topic.Origin, c.Origin)
	if t := r.Topic.Type; t != nil {
		c.Type, c.TypeFrom, c.Renamed, c.NoSchema = t.Name, t.From, t.Renamed, t.Why
	} else if r.Topic.Mismatch {
		c.mismatches++
	}
	if r.Topic.Times != "" && r.Publish.Before(r.Log) { // otherwise nobody knows when it was captured
		if c.Late == nil {
			c.Late = &Lateness{}
		}
		late := r.Log.Sub(r.Publish)
		c.late += late
		c.dated++
		c.Late.MaxMs = max(c.Late.MaxMs, status.Ms(late))
	}
}

func (s *Summary) finish(channels map[string]*ChannelSummary) {
	if s.Start != nil {
		s.Seconds = s.End.Sub(*s.Start).Seconds()
	}
	s.Channels = []ChannelSummary{}
	for _, name := range slices.Sorted(maps.Keys(channels)) {
		c := channels[name]
		if span := c.last.Sub(c.first).Seconds(); span > 0 {
			c.Hz = float64(c.Frames-1) / span
		}
		if c.Late != nil {
			c.Late.MeanMs = status.Ms(c.late) / float64(c.dated)
		}
		if c.Type != "" {
			c.Mismatches = c.mismatches
		}
		s.Channels = append(s.Channels, *c)
	}
}
