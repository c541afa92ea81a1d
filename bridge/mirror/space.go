package mirror

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"achbridge/bridge/lock"
	"achbridge/localach"
	"achbridge/wire"
)

// MaxBytes bounds the shared memory that one mirror takes on a peer's word.
const MaxBytes = 1 << 30

// SmallBytes is up to how much shared memory a mirror counts as small.
const SmallBytes = 1 << 20

// Space keeps mirrors, whose size is a peer's word, from filling the channel
// directory: together they take at most half of what would be free there
// without them. What patterns and pushes bring that is not small leaves room in that
// for the rest, however early it comes: of one host it takes at most half of it, of all
// hosts three quarters. Safe for concurrent use.
type Space struct {
	dir localach.Dir
	// free returns what is free there, in bytes, when mirrors have taken so much. Tests set it.
	Free func(used int64) (int64, error)

	mu   lock.Mutex[lock.Leaf]
	used int64            // by the mirrors that are open
	wide map[string]int64 // by those of them above smallMirror that a pattern or a push brought, by host
}

func NewSpace(dir localach.Dir) *Space {
	return &Space{dir: dir, Free: func(int64) (int64, error) { return freeBytes(dir) }}
}

var (
	errNoRoom   = errors.New("no room")
	errNoShare  = errors.New("no room") // in the share of mirrors that no rule names; other mirrors may still have room
	errTooLarge = errors.New("too much")

	errFrameSize = errors.New("does not fit")
)

func freeBytes(dir localach.Dir) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(string(dir), &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// take reserves room for a new file, or says why there is none. host is whose channel
// it is if a pattern or a push brought it, else "".
func (s *Space) take(size int64, host string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	free, err := s.Free(s.used)
	if err != nil {
		return err
	}
	if size > MaxBytes {
		return fmt.Errorf("a mirror of %d MiB is %w: one may have %d", size>>20, errTooLarge, MaxBytes>>20)
	}
	limit := (free + s.used) / 2
	if s.used+size > limit {
		return fmt.Errorf("%w in %s for a mirror of %d KiB: %d are free, and of those and the %d that mirrors have they may take half; remove files there, or enlarge it: mount -o remount,size=…",
			errNoRoom, s.dir, size>>10, free>>10, s.used>>10)
	}
	if err := s.leaves(limit, size, host); err != nil {
		return err
	}
	s.count(size, host)
	return nil
}

// leaves says what keeps a mirror from being made that would leave too little of limit.
func (s *Space) leaves(limit, size int64, host string) error {
	if host == "" || size <= SmallBytes {
		return nil
	}
	all := size
	for _, n := range s.wide {
		all += n
	}
	whose, part := "of "+host, limit/2
	if s.wide[host]+size <= part {
		whose, part = "of all hosts", limit*3/4
		if all <= part {
			return nil
		}
	}
	return fmt.Errorf("%w in %s for a mirror of %d KiB that no wish names: such mirrors %s, above %d KiB each, may take %d in all; name the channel in a wish of its own",
		errNoShare, s.dir, size>>10, whose, SmallBytes>>10, part>>10)
}

// add counts a file that is there already, of host as for take; a negative size, one
// that is no longer ours to count.
func (s *Space) add(size int64, host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(size, host)
}

// count needs s.mu.
func (s *Space) count(size int64, host string) {
	s.used += size
	if host == "" || max(size, -size) <= SmallBytes {
		return
	}
	if s.wide == nil {
		s.wide = make(map[string]int64)
	}
	if s.wide[host] += size; s.wide[host] == 0 {
		delete(s.wide, host)
	}
}

// FileBytes is about what a channel takes: its header, index and data, in pages.
func FileBytes(g localach.Geometry) int64 {
	const header, page = 512, 4096
	return (header + int64(g.FrameCount)*int64(g.FrameSize+24) + page - 1) / page * page
}

// Unsendable returns why no peer can mirror a channel of this geometry, and what to do; "" if peers can.
func Unsendable(g localach.Geometry) string {
	switch size := FileBytes(g); {
	case g.FrameSize > wire.MaxFrame:
		return fmt.Sprintf("frames of %d MiB are too large, %d MiB is the most; make it with smaller frames", g.FrameSize>>20, wire.MaxFrame>>20)
	case g.FrameCount > wire.MaxFrameCount:
		return fmt.Sprintf("%d frames are too many, %d is the most; make it with fewer", g.FrameCount, wire.MaxFrameCount)
	case size > MaxBytes:
		return fmt.Sprintf("a ring of %d MiB is too large, %d MiB is the most; make it with fewer or smaller frames", size>>20, MaxBytes>>20)
	}
	return ""
}

// LargestFrame is the largest that may come of a channel, in bytes.
func LargestFrame(c wire.Channel) int { return min(c.FrameCount*c.FrameSize, wire.MaxFrame) }
