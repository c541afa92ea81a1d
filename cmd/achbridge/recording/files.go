package recording

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"github.com/foxglove/mcap/go/mcap"
)

// Files holds the paths and limits of the files of a recording.
type Files struct {
	// Path is the file. With a limit there may be several: run-0001.mcap and so on for
	// run.mcap.
	Path    string
	MaxSize int64         // maximum size of a file in bytes, at least 64 KiB; 0 means no limit
	MaxTime time.Duration // maximum time that a file covers, at least a second; 0 means no limit
	Facts   map[string]string

	every time.Duration // interval at which chunks are ended; 0 means chunkEvery
}

// ErrExists means that the file exists already. A recording is never overwritten.
var ErrExists = errors.New("the file exists already")

// files writes the files of a recording, one after the other.
type files struct {
	Files
	now         func() time.Time
	fileBeganAt time.Time // start time of the current file
	w           *writer   // writer of the current file; nil if the next message starts a new file
	made        []Made
}

// Made is a file that was written.
type Made struct {
	Path  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

// open creates the first file at once, so that an error in its path is found before recording
// begins.
func (f *files) open() error {
	return f.next()
}

func (f *files) next() error {
	path := f.Path
	if f.MaxSize > 0 || f.MaxTime > 0 {
		ext := filepath.Ext(path)
		path = fmt.Sprintf("%s-%04d%s", strings.TrimSuffix(path, ext), len(f.made)+1, ext)
	}
	facts := maps.Clone(f.Facts)
	f.fileBeganAt = f.now()
	facts["started"] = f.fileBeganAt.UTC().Format(time.RFC3339Nano)
	w, err := newWriter(path, facts)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", path, ErrExists)
	}
	if err != nil {
		return err
	}
	f.w = w
	f.made = append(f.made, Made{Path: path})
	return nil
}

// room makes sure that there is a file with room for size more bytes. It ends the present file
// when that would get too large, or covers MaxTime.
func (f *files) room(size int) error {
	if f.w != nil && (f.MaxSize > 0 && len(f.w.order) > 0 && f.w.size()+int64(size) > f.MaxSize || f.MaxTime > 0 && f.now().Sub(f.fileBeganAt) >= f.MaxTime) {
		if err := f.close(); err != nil {
			return err
		}
	}
	if f.w == nil {
		return f.next()
	}
	return nil
}

const recordHead = 9 + 22 + 16 // bytes of a message's header and of its entry in the index

func (f *files) add(b batch) error {
	return b.each(func(i item, data []byte) error {
		if i.topic == nil {
			return f.text(i.own, i.message(data))
		}
		return f.frame(*i.topic, i.message(data))
	})
}

func (f *files) frame(t Topic, m mcap.Message) error {
	size := len(m.Data) + recordHead
	if f.w != nil && !f.w.has(t) {
		size += 2 * int(t.Type.size()) // with the frame, and at the end
	}
	if err := f.room(size); err != nil {
		return err
	}
	return f.w.frame(t, m)
}

func (f *files) text(t *ownTopic, m mcap.Message) error {
	if err := f.room(len(m.Data) + recordHead); err != nil {
		return err
	}
	return f.w.text(t, m)
}

// flush ends a chunk that is old enough.
func (f *files) flush() error {
	if f.w == nil || !f.w.due(f.now(), cmp.Or(f.every, chunkEvery)) {
		return nil
	}
	return f.w.flush()
}

// close ends the present file.
func (f *files) close() error {
	if f.w == nil {
		return nil
	}
	w := f.w
	f.w = nil
	var err error
	f.made[len(f.made)-1].Bytes, err = w.close()
	return err
}

// fail closes the present file without its end: its whole chunks stay readable.
func (f *files) fail() {
	if f.w != nil {
		f.made[len(f.made)-1].Bytes = f.w.whole
		f.w.abandon()
		f.w = nil
	}
}
