package kept

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// Keeper stores the newest frame of each of its channels. It is for one goroutine at a time.
type Keeper struct {
	dir   localach.Dir
	files string // directory of the stored frames
	list  []*channel
	buf   []byte // buffer of newest
}

// channel is a channel whose newest frame is stored.
type channel struct {
	name     string
	geometry localach.Geometry
	ring     *localach.Channel // nil while the channel does not exist or cannot be used
	fileHash [sha256.Size]byte // hash of the frame in the file; zero if there is none
	seq      uint64            // sequence number of the newest frame of ring that was examined; 0 means none
	problem  string            // text of the error that was reported last; "" means that frames are stored
}

// Period is the time between two checks for new frames.
const Period = time.Second

// New returns a Keeper of channels in dir. It stores frames in the directory files, which no other process may use.
func New(dir localach.Dir, files string) *Keeper { return &Keeper{dir: dir, files: files} }

// Frame returns the stored frame of a channel. It returns fs.ErrNotExist if there is none, and another error if the file is
// damaged, or of another channel or geometry.
func (k *Keeper) Frame(name string, g localach.Geometry) ([]byte, error) {
	path := k.path(name)
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a FIFO would block
		return nil, fmt.Errorf("%s: not a regular file; remove it", path)
	}
	text, err := config.ReadFile(path, config.MaxKept+maxHead)
	if err != nil {
		return nil, err
	}
	frame, err := decode(text, name, g)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return frame, nil
}

// maxHead is more than the size of a file's first line, in bytes.
const maxHead = 512

func (k *Keeper) path(name string) string { return filepath.Join(k.files, name) }

// Add adds an existing channel. stored is its stored frame, nil if there is none. If no frame was ever put into the channel, Add
// puts the stored frame, and isPut is true. Even if it returns an error, the channel is added, and its later frames are stored.
func (k *Keeper) Add(name string, g localach.Geometry, stored []byte) (isPut bool, err error) {
	c := &channel{name: name, geometry: g}
	k.list = append(k.list, c)
	if stored == nil {
		return false, nil
	}
	c.fileHash = sha256.Sum256(stored)
	if err := c.open(k.dir); err != nil || c.ring == nil {
		return false, err
	}
	return c.putFirst(stored)
}

// putFirst puts a frame into the channel if none was ever put.
func (c *channel) putFirst(frame []byte) (isPut bool, err error) {
	if c.ring.LastSeq() != 0 {
		return false, nil
	}
	if err := c.ring.Reserve(); err != nil {
		return false, err
	}
	w := c.ring.Writer()
	_, err = w.PutAfter(0, frame)
	if errors.Is(err, localach.ErrMoved) {
		return false, w.Close()
	}
	return err == nil, errors.Join(err, w.Close())
}

// open opens the channel if it is not open, or if its file was replaced. If there is no such channel, it returns nil, and c.ring is
// nil.
func (c *channel) open(dir localach.Dir) error {
	if c.ring != nil && c.ring.Check() == nil {
		return nil
	}
	c.close()
	ring, err := dir.TryOpen(c.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case ring.Geometry() != c.geometry:
		err = fmt.Errorf("channel %s has %v frames, and %v in the configuration: its frames are not kept", c.name, ring.Geometry(), c.geometry)
	case ring.Tag() != localach.Tag{}:
		err = fmt.Errorf("channel %s is a mirror or the output of a mux: its frames are not kept", c.name)
	default:
		c.ring = ring
		return nil
	}
	ring.Close()
	return err
}

func (c *channel) close() {
	if c.ring != nil {
		c.ring.Close()
		c.ring, c.seq = nil, 0
	}
}

// Run stores new frames at once, then every Period, and once more when ctx ends. Then it returns; that may take as long as the disk
// needs. If a frame cannot be stored, Run calls report with the error, but only once for the same error in a row. When frames of the
// channel are stored again, it calls report with nil. Without channels Run returns at once.
func (k *Keeper) Run(ctx context.Context, report func(channel string, err error)) {
	if len(k.list) == 0 {
		return
	}
	k.removeDrafts()
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for ctx.Err() == nil {
		k.storeAll(report)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	k.storeAll(report)
	for _, c := range k.list {
		c.close()
	}
}

// removeDrafts removes the unfinished files of former processes that were killed.
func (k *Keeper) removeDrafts() {
	drafts, _ := filepath.Glob(filepath.Join(k.files, config.DraftPattern))
	for _, path := range drafts {
		os.Remove(path)
	}
}

func (k *Keeper) storeAll(report func(channel string, err error)) {
	for _, c := range k.list {
		c.noteResult(k.store(c), report)
	}
}

// noteResult calls report with the result of store if it differs from the previous result.
func (c *channel) noteResult(err error, report func(string, error)) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != c.problem {
		c.problem = text
		report(c.name, err)
	}
}

// store writes the newest frame of a channel to the disk if it differs from the stored frame.
func (k *Keeper) store(c *channel) error {
	if err := c.open(k.dir); err != nil || c.ring == nil {
		return err
	}
	last := c.ring.LastSeq()
	if last == 0 || last == c.seq {
		return nil
	}
	frame, err := k.newest(c.ring)
	if errors.Is(err, localach.ErrBusy) || errors.Is(err, os.ErrDeadlineExceeded) { // no frame can be read now
		return nil // the next check tries again
	}
	if err != nil {
		return err
	}
	if hash := sha256.Sum256(frame); hash != c.fileHash {
		if err := config.KeepFile(k.path(c.name), encode(c.name, c.geometry, frame), 0o600); err != nil {
			return err
		}
		c.fileHash = hash
	}
	c.seq = last
	return nil
}

// newest returns the newest frame of a channel. The frame is valid until the next call.
func (k *Keeper) newest(ring *localach.Channel) ([]byte, error) {
	for {
		n, err := ring.Reader().TryNext(k.buf)
		switch {
		case !errors.Is(err, io.ErrShortBuffer):
			return k.buf[:n], err
		case n > config.MaxKept:
			return nil, fmt.Errorf("a frame of %s is too large to be kept; %s at most", ui.Bytes(n), ui.Bytes(config.MaxKept))
		}
		k.buf = make([]byte, n)
	}
}
