package mirror

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"achbridge/bridge/lock"
	"achbridge/localach"
	"achbridge/wire"
)

// MaxBytes limits the shared memory that a peer can make one mirror use.
const MaxBytes = 1 << 30

// SmallBytes is the size in shared memory up to which a mirror counts as small.
const SmallBytes = 1 << 20

// Space limits the shared memory of mirrors, whose sizes the peers choose. Together they may use half of the
// memory that would be free in the channel directory without them. Pattern or push mirrors over SmallBytes may
// use half of that limit per host, and three quarters in total. The rest remains for other mirrors. Safe for
// concurrent use.
type Space struct {
	dir localach.Dir
	// Free returns the free bytes in dir; used is the memory that mirrors already use. Tests replace it.
	Free func(used int64) (int64, error)

	mu   lock.Mutex[lock.Leaf]
	used int64            // bytes used by open mirrors
	wide map[string]int64 // bytes used by pattern or push mirrors over SmallBytes, by host
}

func NewSpace(dir localach.Dir) *Space {
	return &Space{dir: dir, Free: func(int64) (int64, error) { return freeBytes(dir) }}
}

var (
	errNoRoom   = errors.New("no room")
	errNoShare  = errors.New("no room") // in the share of pattern and push mirrors; other mirrors may still have room
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

// take reserves room for a new file, or returns an error if there is none. host is the channel's host for a
// pattern or push mirror, else "".
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

// leaves returns an error if a pattern or push mirror would exceed its share of limit.
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
	return fmt.Errorf("%w in %s for a mirror of %d KiB that no rule names: such mirrors %s, above %d KiB each, may take %d in all; name the channel in a rule of its own",
		errNoShare, s.dir, size>>10, whose, SmallBytes>>10, part>>10)
}

// add counts an existing file; a negative size removes one. host has the same meaning as for take.
func (s *Space) add(size int64, host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(size, host)
}

// count adds size to the counters. s.mu must be held.
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

// FileBytes returns the approximate size of a channel's file: header, index and data, rounded up to pages.
func FileBytes(g localach.Geometry) int64 {
	const header, page = 512, 4096
	return (header + int64(g.FrameCount)*int64(g.FrameSize+24) + page - 1) / page * page
}

// Unsendable returns why no peer can mirror a channel of this geometry, and the fix. It returns "" if peers can.
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

// LargestFrame returns the largest possible frame size of a channel, in bytes.
func LargestFrame(c wire.Channel) int { return min(c.FrameCount*c.FrameSize, wire.MaxFrame) }
