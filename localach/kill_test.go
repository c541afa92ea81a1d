package localach_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// survivor uses a channel while other processes are killed. Its calls must succeed, or return ErrDirty, after which it reopens.
type survivor struct {
	t           *testing.T
	d           localach.Dir
	c           *localach.Channel
	w           *localach.Writer
	r           *localach.Reader
	buf         []byte
	dirty       int
	busy        int
	count       uint64
	longestCall time.Duration // longest duration of a call
}

const killFrame = 100_000 // in bytes; takes long enough under the lock for a kill

func newSurvivor(t *testing.T) *survivor {
	s := &survivor{t: t, d: privateDir(t), buf: make([]byte, killFrame)}
	s.reopen()
	return s
}

func (s *survivor) reopen() {
	s.t.Helper()
	c, err := s.d.Create("imu", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: killFrame}, Replace: true})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	s.c, s.w, s.r = c, c.Writer(), c.Reader()
}

// timed runs one call and records its duration and error.
func (s *survivor) timed(what string, call func() error) {
	s.t.Helper()
	start := time.Now()
	err := call()
	s.longestCall = max(s.longestCall, time.Since(start))
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
	case errors.Is(err, localach.ErrBusy):
		s.busy++
	case errors.Is(err, localach.ErrDirty):
		s.dirty++
		s.reopen()
	default:
		s.t.Fatalf("%s: %v", what, err)
	}
}

// use puts a frame, and reads the newest frame and the oldest unread one.
func (s *survivor) use() {
	s.t.Helper()
	s.count++
	s.timed("put", func() error {
		_, err := s.w.Put(makeFrame(s.buf[:64+s.count%1000], firstOwnWriter, s.count))
		return err
	})
	for what, next := range map[string]func([]byte, time.Duration) (int, error){"next": s.r.Next, "next oldest": s.r.NextOldest} {
		s.timed(what, func() error {
			n, err := next(s.buf, 0)
			if err == nil {
				_, err = checkFrame(s.buf[:n])
			}
			return err
		})
	}
}

func (s *survivor) surviveKills(kills int, args ...string) {
	s.t.Helper()
	for range kills {
		p := startPeer(s.t, pathOf(s.d, "imu"), args...).ready()
		for end := time.Now().Add(time.Duration(rand.IntN(2000)) * time.Microsecond); time.Now().Before(end); {
			s.use()
		}
		p.kill()
		s.use()
		s.use()
	}
	// One more frame must arrive, whatever state the last kill left.
	s.use()
	if _, err := s.w.Put(makeFrame(s.buf[:64], firstOwnWriter, s.count+1)); err != nil {
		s.t.Fatal(err)
	}
	if n, err := s.r.Last(s.buf); err != nil || n != 64 {
		s.t.Errorf("last frame: got %d bytes and %v, want 64", n, err)
	}
	s.t.Logf("%d killed in %s: dirty %d times, busy %d times, longest call %v", kills, args[0], s.dirty, s.busy, s.longestCall)
}

func TestChannelSurvivesWritersKilledInPut(t *testing.T) {
	newSurvivor(t).surviveKills(need.LongOr(200, 10), "spin-put", "100000")
}

func TestChannelSurvivesReadersKilledInGet(t *testing.T) {
	newSurvivor(t).surviveKills(need.LongOr(200, 10), "spin-get")
}

// A process of ours is killed inside put. If the lock were not registered with the kernel, it would never be released.
func TestKernelReleasesLockOfKilledProcess(t *testing.T) {
	for range need.LongOr(50, 1) {
		d := privateDir(t)
		c := createIn(t, d, "imu", 2, 1<<20)
		file, err := os.Open(pathOf(d, "imu"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		child := startOurs(t, d, "put", "imu").ready()
		await.True(t, "it stops inside put", func() bool {
			_ = child.cmd.Process.Signal(syscall.SIGSTOP)
			await.True(t, "it is stopped", func() bool { return child.is("T") })
			dirty := make([]byte, 4)
			if _, err := file.ReadAt(dirty, localach.CondAt+48); err != nil {
				t.Fatal(err)
			}
			if binary.NativeEndian.Uint32(dirty) != 0 {
				return true
			}
			_ = child.cmd.Process.Signal(syscall.SIGCONT)
			return false
		})
		child.kill()
		_, err = c.Writer().Put([]byte("after"))
		for what, err := range map[string]error{"put": err, "check": c.Check()} {
			if !errors.Is(err, localach.ErrDirty) {
				t.Errorf("%s: got %v, want ErrDirty", what, err)
			}
		}
	}
}

func TestWriterKilledInPutLeavesErrDirty(t *testing.T) {
	s := newSurvivor(t)
	s.use()
	startPeer(t, pathOf(s.d, "imu"), "die-in-put").wait()

	_, putErr := s.w.Put(s.buf[:64])
	_, nextErr := s.r.Next(s.buf, time.Second)
	_, oldestErr := s.r.NextOldest(s.buf, 0)
	for what, err := range map[string]error{"put": putErr, "next": nextErr, "next oldest": oldestErr, "check": s.c.Check()} {
		if !errors.Is(err, localach.ErrDirty) || !errors.Is(err, localach.ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrDirty", what, err)
		}
	}
	s.reopen()
	s.use()
	if err := s.c.Check(); err != nil {
		t.Errorf("the channel made anew: %v", err)
	}
}

func TestReaderKilledWithLockDoesNoHarm(t *testing.T) {
	s := newSurvivor(t)
	for range 3 {
		startPeer(t, pathOf(s.d, "imu"), "die-locked").wait()
		s.use()
	}
	if s.dirty != 0 || s.busy != 0 {
		t.Errorf("got %d times dirty and %d times busy, want none", s.dirty, s.busy)
	}
	if got := runPeer(t, pathOf(s.d, "imu"), "put", "10", "64", "0", "1"); got["put"] != 10 {
		t.Errorf("the C writer after that: got %v frames put, want 10", got["put"])
	}
}

func TestStoppedLockOwnerGivesErrBusy(t *testing.T) {
	s := newSurvivor(t)
	p := startPeer(t, pathOf(s.d, "imu"), "hold", "100000").ready()

	await.Return(t, "put and get beside a stopped owner", func() {
		if _, err := s.w.Put(s.buf[:64]); !errors.Is(err, localach.ErrBusy) {
			t.Errorf("put: got %v, want ErrBusy", err)
		}
		if _, err := s.r.NextOldest(s.buf, 0); !errors.Is(err, localach.ErrBusy) {
			t.Errorf("next oldest: got %v, want ErrBusy", err)
		}
	})

	p.kill()
	s.use()
	if s.busy != 0 || s.dirty != 0 {
		t.Errorf("after the owner's death: got %d times busy, %d times dirty", s.busy, s.dirty)
	}
}
