package bridge

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"achbridge/localach"
	"achbridge/wire"
)

// maxMirror bounds the shared memory that one mirror takes on a peer's word.
const maxMirror = 1 << 30

// maxAssembly bounds the memory in which one peer's large frames are put
// together: one frame of each subscription.
const maxAssembly = 256 << 20

// space keeps mirrors, whose size is a peer's word, from filling the channel
// directory: together they take at most half of what would be free there
// without them. Safe for concurrent use.
type space struct {
	dir  localach.Dir
	free func() (int64, error) // bytes

	mu   sync.Mutex
	used int64 // by the mirrors that are open
}

func newSpace(dir localach.Dir) *space {
	return &space{dir: dir, free: func() (int64, error) { return freeBytes(dir) }}
}

var (
	errNoRoom  = errors.New("no room")
	errTooMuch = errors.New("too much")
)

func freeBytes(dir localach.Dir) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(string(dir), &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// take reserves room for a new file, or says why there is none.
func (s *space) take(size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	free, err := s.free()
	if err != nil {
		return err
	}
	if size > maxMirror {
		return fmt.Errorf("a mirror of %d MiB is %w: one may have %d", size>>20, errTooMuch, maxMirror>>20)
	}
	if limit := (free + s.used) / 2; s.used+size > limit {
		return fmt.Errorf("%w in %s for a mirror of %d KiB: %d are free, and of those and the %d that mirrors have they may take half; remove files there, or enlarge it: mount -o remount,size=…",
			errNoRoom, s.dir, size>>10, free>>10, s.used>>10)
	}
	s.used += size
	return nil
}

// add counts a file that is there already; a negative size, one that is no
// longer ours to count.
func (s *space) add(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += size
}

// fileBytes is about what a channel takes: its header, index and data, in pages.
func fileBytes(g localach.Geometry) int64 {
	const header, page = 512, 4096
	return (header + int64(g.FrameCount)*int64(g.FrameSize+24) + page - 1) / page * page
}

// dataSize is the largest frame a channel can hold, in bytes.
func dataSize(c wire.Channel) int { return c.FrameCount * c.FrameSize }

// assembling is how much memory l's subscriptions may need for large frames.
func (l *link) assembling() (bytes int) {
	for _, m := range l.subs {
		bytes += largestFrame(m.origin)
	}
	return bytes
}

// largestFrame is the largest that may come of a channel, in bytes.
func largestFrame(c wire.Channel) int { return min(dataSize(c), wire.MaxFrame) }
