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

// Files says into which files to record.
type Files struct {
	// Path is the file. With a limit there may be several: run-0001.mcap and so on for
	// run.mcap.
	Path    string
	MaxSize int64         // bytes of a file, at most; 0: no limit
	MaxTime time.Duration // that a file covers; 0: no limit
	Facts   map[string]string

	every time.Duration // that chunks are ended; 0: chunkEvery
}

// ErrExists: there is a file of that name, and no recording is written over.
var ErrExists = errors.New("there is such a file already")

// files writes one after the other.
type files struct {
	Files
	now   func() time.Time
	begun time.Time // the present one
	w     *writer   // nil: the next message begins a file
	made  []Made
}

// Made is a file that was written.
type Made struct {
	Path  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

// open makes the first file at once, so that what is wrong with it is found before
// anything is recorded.
func (f *files) open() error {
	if err := f.limits(); err != nil {
		return err
	}
	return f.next()
}

func (f *files) limits() error {
	switch {
	case f.MaxSize != 0 && f.MaxSize < leastSize:
		return fmt.Errorf("files of %d bytes: want %d KiB at least", f.MaxSize, leastSize>>10)
	case f.MaxTime < 0 || f.MaxTime > 0 && f.MaxTime < chunkEvery:
		return fmt.Errorf("files of %v: want %v at least", f.MaxTime, chunkEvery)
	}
	return nil
}

const leastSize = 64 << 10

func (f *files) next() error {
	path := f.Path
	if f.MaxSize > 0 || f.MaxTime > 0 {
		ext := filepath.Ext(path)
		path = fmt.Sprintf("%s-%04d%s", strings.TrimSuffix(path, ext), len(f.made)+1, ext)
	}
	facts := maps.Clone(f.Facts)
	f.begun = f.now()
	facts["started"] = f.begun.UTC().Format(time.RFC3339Nano)
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

// room ends the file when size more bytes are too many for it, or its time is over, and
// has one to write into.
func (f *files) room(size int) error {
	if f.w != nil && (f.MaxSize > 0 && len(f.w.order) > 0 && f.w.size()+int64(size) > f.MaxSize || f.MaxTime > 0 && f.now().Sub(f.begun) >= f.MaxTime) {
		if err := f.close(); err != nil {
			return err
		}
	}
	if f.w == nil {
		return f.next()
	}
	return nil
}

const recordHead = 9 + 22 + 16 // of a message, and its place in the index

func (f *files) frame(t Topic, m mcap.Message) error {
	if err := f.room(len(m.Data) + recordHead); err != nil {
		return err
	}
	return f.w.frame(t, m)
}

func (f *files) drop(at uint64, d Drop) error {
	if err := f.room(256); err != nil {
		return err
	}
	return f.w.drop(at, d)
}

// flush ends a chunk that has waited long enough.
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

// fail leaves the present file as it is: whole as far as it goes.
func (f *files) fail() {
	if f.w != nil {
		f.made[len(f.made)-1].Bytes = f.w.whole
		f.w.file.Close()
		f.w.zstd.Close()
		f.w = nil
	}
}
