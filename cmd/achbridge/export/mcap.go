package export

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"achbridge/cmd/achbridge/protomsg"
	"achbridge/cmd/achbridge/recording"
)

// messages writes the frames of a recording as protobuf messages.
type messages struct {
	*exporter
	file   *recording.ValuesFile
	topics map[*recording.Topic]*topic // keyed by topic of the recording; nil if the layout of its frames is not known
	layout map[string]*topic           // keyed by channel and encoded layout
	frames uint64
	unfit  map[string]uint64 // number of frames that do not match their layout, by channel
	buf    []byte
}

// topic is a topic of the exported file, for the frames of one channel with one layout.
type topic struct {
	message *protomsg.Message
	as      recording.Topic
}

// mcap writes the file of protobuf messages. If it fails, it leaves no new file.
func (e *exporter) mcap(ctx context.Context, r *recording.Reader) (made []Made, err error) {
	path := filepath.Join(e.Dir, filepath.Base(e.File))
	if from, err := os.Stat(e.File); err == nil {
		if to, err := os.Stat(path); err == nil && os.SameFile(from, to) {
			return nil, fmt.Errorf("%s: %w", path, ErrExists)
		}
	}
	if err := e.mayWrite(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(e.Dir, 0o777); err != nil {
		return nil, err
	}
	part := path + ".part" // an earlier export stays until the new one is complete
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	m := &messages{exporter: e, topics: map[*recording.Topic]*topic{}, layout: map[string]*topic{}, unfit: map[string]uint64{}}
	if m.file, err = recording.CreateValues(part, map[string]string{"exported_from": filepath.Base(e.File)}); err != nil {
		return nil, err
	}
	err = errors.Join(e.read(ctx, r, m.write), m.file.Close())
	if err == nil {
		err = m.notes()
	}
	if err == nil {
		err = e.publish(part, path)
	}
	if err != nil {
		os.Remove(part)
		return nil, err
	}
	return []Made{{Path: path, Frames: m.frames}}, nil
}

// write writes a frame as a message.
func (m *messages) write(r recording.Record) error {
	t, isKnown := m.topics[r.Topic]
	if !isKnown {
		var err error
		if t, err = m.topicOf(r.Topic); err != nil {
			return err
		}
		m.topics[r.Topic] = t
	}
	switch {
	case t == nil && r.Topic.Mismatch:
		m.unfit[r.Topic.Channel]++
		return nil
	case t == nil:
		m.unknown[r.Topic.Channel]++
		return nil
	}
	message, err := t.message.Append(m.buf[:0], r.Data)
	if m.buf = message; err != nil {
		m.unfit[r.Topic.Channel]++
		return nil
	}
	m.frames++
	return m.file.Message(t.as, r, message)
}

// topicOf returns the topic of the exported file for a topic of the recording, or nil if the layout of its frames is not known. A
// recording of several files has a topic in each; those of one channel with the same layout get one topic.
func (m *messages) topicOf(from *recording.Topic) (*topic, error) {
	l, err := m.Layout(*from)
	if err != nil || l == nil || from.Mismatch && from.Type == nil {
		return nil, err
	}
	encoded, err := l.Encode()
	if err != nil {
		return nil, fmt.Errorf("channel %s: %w", from.Channel, err)
	}
	key := from.Channel + "\x00" + string(encoded)
	if known := m.layout[key]; known != nil {
		return known, nil
	}
	message, err := protomsg.Of(l)
	if err != nil {
		return nil, fmt.Errorf("channel %s: %w", from.Channel, err)
	}
	m.layout[key] = &topic{message, recording.ValuesOf(*from, message.Name, message.Descriptors)}
	return m.layout[key], nil
}

// notes prints which frames are not in the file, and why. It returns an error if the recording has no frame with a known layout.
func (m *messages) notes() error {
	if m.frames == 0 && len(m.unfit) == 0 {
		if len(m.unknown) > 0 {
			return ErrNoLayout
		}
		return ErrNothing
	}
	for _, name := range slices.Sorted(maps.Keys(m.unknown)) {
		m.Note("%s is left out: %v", name, ErrNoLayout)
	}
	for _, name := range slices.Sorted(maps.Keys(m.unfit)) {
		if n := m.unfit[name]; n == 1 {
			m.Note("%s: 1 frame is left out: it does not match its layout", name)
		} else {
			m.Note("%s: %d frames are left out: they do not match their layout", name, n)
		}
	}
	return nil
}
