package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/testnet/await"
)

func TestMain(m *testing.M) { os.Exit(await.Main(m)) }

// watched runs Watch until the test ends. The result is a channel of its events.
func watched(t *testing.T, c *Channels) <-chan localach.Event {
	ctx, stop := context.WithCancel(t.Context())
	events, ended := make(chan localach.Event, 10000), make(chan error, 1)
	go func() { ended <- c.Watch(ctx, func(e localach.Event) { events <- e }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	await.True(t, "watching", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.isWatched
	})
	return events
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened opens a channel until the test ends.
func opened(t *testing.T, c *Channels, name string) *localach.Channel {
	t.Helper()
	ch, err := c.TryOpen(name)
	do(t, err)
	t.Cleanup(func() { ch.Close() })
	return ch
}

// wantNext fails unless the next frame of r is the given one.
func wantNext(t *testing.T, r *localach.Reader, want string) {
	t.Helper()
	buf := make([]byte, 1<<20)
	n, err := r.Next(buf, 10*time.Second)
	if err != nil || !bytes.Equal(buf[:n], []byte(want)) {
		t.Fatalf("Next() = %.20q, %v, want %.20q", buf[:n], err, want)
	}
}

func TestNewestFrameIsReadAtOnce(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		c := m.channels()
		watched(t, c)
		do(t, m.Create("imu", 4, 64))
		do(t, m.Put("imu", []byte("old")))
		do(t, m.Put("imu", []byte("before")))
		ch := opened(t, c, "imu")
		r := ch.Reader()
		wantNext(t, r, "before")
		do(t, m.Put("imu", []byte("after")))
		wantNext(t, r, "after")
		if ch.LastSeq() != 2 {
			t.Errorf("LastSeq() = %d, want 2: frames are counted from the first that was read", ch.LastSeq())
		}
	})
}

func TestNewestFrameFollowsBurst(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		c := m.channels()
		watched(t, c)
		do(t, m.Create("imu", 4, 64))
		r := opened(t, c, "imu").Reader()
		buf := make([]byte, 64)
		for burst := range 20 {
			for i := range 20 {
				do(t, m.Put("imu", fmt.Appendf(nil, "%d.%d", burst, i)))
			}
			await.True(t, "the last frame of the burst", func() bool {
				n, err := r.Next(buf, 10*time.Second)
				do(t, err)
				return string(buf[:n]) == fmt.Sprintf("%d.19", burst)
			})
		}
	})
}

func TestMissedFramesAreCounted(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		c := m.channels()
		watched(t, c)
		do(t, m.Create("imu", 4, 64))
		do(t, m.Put("imu", []byte("0")))
		d, _, err := c.openToRead("imu") // no goroutine reads it yet
		do(t, err)
		d.statusEvery = time.Millisecond
		for i := range 5 {
			do(t, m.Put("imu", fmt.Appendf(nil, "%d", i+1)))
		}
		ring, err := c.makeRing("imu", d)
		do(t, err)
		defer ring.Close()
		wantNext(t, ring.Reader(), "5")
		await.True(t, "5 frames missed", func() bool {
			do(t, m.Put("imu", []byte("more")))
			time.Sleep(2 * time.Millisecond)
			stat, err := ring.Stat()
			do(t, err)
			return stat.Missed >= 5
		})
	})
}

func TestIoctlsAreRare(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		c := m.channels()
		watched(t, c)
		do(t, m.Create("imu", 4, 64))
		before := m.Ioctls()
		r := opened(t, c, "imu").Reader()
		for i := range 100 {
			do(t, m.Put("imu", fmt.Appendf(nil, "%d", i)))
			wantNext(t, r, fmt.Sprint(i))
		}
		if got := m.Ioctls() - before; got != 2 {
			t.Errorf("%d ioctls, want 2: one sets the mode, one gets the size", got)
		}
	})
}

func TestLargeFrameGrowsBuffer(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		c := m.channels()
		watched(t, c)
		do(t, m.Create("image", 4, 64<<10))
		r := opened(t, c, "image").Reader()
		for _, size := range []int{10, 5000, 64 << 10, 200 << 10, 20} {
			frame := strings.Repeat("x", size)
			do(t, m.Put("image", []byte(frame)))
			wantNext(t, r, frame)
		}
	})
}

func TestHugeChannelIsRefused(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		c := m.channels()
		watched(t, c)
		do(t, m.Create("map", 17, 1<<20))
		before := m.Ioctls()
		for range 3 {
			if _, err := c.TryOpen("map"); !errors.Is(err, errTooLarge) {
				t.Fatalf("TryOpen(map) = %v, want %v", err, errTooLarge)
			}
		}
		if got := m.Ioctls() - before; got != 2 {
			t.Errorf("%d ioctls in three attempts, want 2: a failed device is not opened again soon", got)
		}
	})
}

func TestOpenChannelIsOpenedOnce(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		c := m.channels()
		watched(t, c)
		do(t, m.Create("imu", 4, 64))
		ch := opened(t, c, "imu")
		if again := opened(t, c, "imu"); again != ch {
			t.Error("TryOpen opened the device twice")
		}
		ch.Close()
		if again := opened(t, c, "imu"); again == ch || again.Epoch() == ch.Epoch() || again.Check() != nil {
			t.Errorf("after Close TryOpen returned epoch %x and Check() = %v, want another epoch than %x", again.Epoch(), again.Check(), ch.Epoch())
		}
	})
}

func TestCreatedAgainIsAnotherEpoch(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		c := m.channels()
		watched(t, c)
		do(t, m.Create("imu", 4, 64))
		ch := opened(t, c, "imu")
		do(t, m.Unlink("imu"))
		await.True(t, "unlinked", func() bool { return errors.Is(ch.Check(), localach.ErrUnlinked) })
		do(t, m.Create("imu", 4, 64))
		do(t, m.Put("imu", []byte("new")))
		again := opened(t, c, "imu")
		wantNext(t, again.Reader(), "new")
		if again.Epoch() == ch.Epoch() || again.LastSeq() != 1 {
			t.Errorf("epoch %x, LastSeq() = %d, want another epoch than %x and 1", again.Epoch(), again.LastSeq(), ch.Epoch())
		}
	})
}

// cycles removes an open channel n times and creates it again after the given time. It returns how many descriptors were closed
// too late.
func cycles(t *testing.T, m world, n int, pause time.Duration) int {
	c := m.channels()
	watched(t, c)
	before := m.Faults()
	do(t, m.Create("imu", 4, 64))
	for range n {
		ch, err := c.TryOpen("imu")
		do(t, err)
		do(t, m.Put("imu", []byte("frame")))
		wantNext(t, ch.Reader(), "frame")
		do(t, m.Unlink("imu"))
		time.Sleep(pause)
		do(t, m.Create("imu", 4, 64))
		ch.Close() // its descriptors should be closed by now
	}
	do(t, m.Unlink("imu"))
	return m.Faults() - before
}

func TestDescriptorsAreClosedOnRemoval(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		n := m.cycles
		if late := cycles(t, m, n, 100*time.Millisecond); late != 0 {
			t.Errorf("%d descriptors closed too late after %d removals with 100 ms after each, want 0", late, n)
		}
		t.Logf("without a pause: %d of %d descriptors closed too late", cycles(t, m, n, 0), 2*n)
	})
}

// Watch must close descriptors even while its caller is busy.
func TestRemovalDuringEvent(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		c := m.channels()
		do(t, m.Create("imu", 4, 64))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		removed, ended := make(chan error, 1), make(chan struct{})
		go func() {
			defer close(ended)
			c.Watch(ctx, func(localach.Event) {
				ch, err := c.TryOpen("imu")
				if err == nil {
					err = m.Unlink("imu")
				}
				for err == nil && ctx.Err() == nil && ch.Check() == nil {
					time.Sleep(time.Millisecond)
				}
				for err == nil && ctx.Err() == nil && !isClosed(c, ch) {
					time.Sleep(time.Millisecond)
				}
				if ch != nil {
					ch.Close()
				}
				removed <- err
				stop()
			})
		}()
		select {
		case err := <-removed:
			do(t, err)
		case <-time.After(10 * time.Second):
			t.Error("the device stays open while the event is handled")
		}
		stop()
		<-ended
	})
}

// isClosed reports whether ch's device was closed by Watch.
func isClosed(c *Channels, ch *localach.Channel) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readers[ch.Name()] == nil
}

func TestWatchReportsChannels(t *testing.T) {
	eachModule(t, func(t *testing.T, m world) {
		c := m.channels()
		do(t, m.Create("imu", 4, 64))
		events := watched(t, c)
		want := func(kind localach.EventKind, name string) {
			t.Helper()
			for {
				select {
				case e := <-events:
					if e.Kind == kind && e.Name == name {
						return
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("no event: %s %s", name, kind)
				}
			}
		}
		want(localach.Appeared, "imu")
		do(t, m.Create("goal", 4, 64))
		want(localach.Appeared, "goal")
		do(t, m.Unlink("imu"))
		want(localach.Vanished, "imu")
	})
}

func TestUnwatchedDeviceIsNotOpened(t *testing.T) {
	m := newEmulated(t)
	c := m.channels()
	do(t, m.Create("imu", 4, 64))
	if _, err := c.TryOpen("imu"); err == nil || !strings.Contains(err.Error(), "inotify") || m.Ioctls() != 0 {
		t.Errorf("TryOpen without Watch = %v, want an error that names inotify", err)
	}
}

func TestMissingDevice(t *testing.T) {
	c := newEmulated(t).channels()
	watched(t, c)
	if _, err := c.TryOpen("imu"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("TryOpen(imu) = %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := c.TryOpen("a!b"); !errors.Is(err, localach.ErrName) {
		t.Errorf("TryOpen(a!b) = %v, want %v", err, localach.ErrName)
	}
}

func TestOpensAsLibach(t *testing.T) {
	if os.Getenv("TEST_AS_NOBODY") == "" && os.Geteuid() == 0 { // root may open any file
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestOpensAsLibach$", "-test.v")
		cmd.Env = append(os.Environ(), "TEST_AS_NOBODY=1", "TMPDIR=/tmp")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	for _, c := range []struct {
		what         string
		mode         fs.FileMode // mode of the device; 0 means that there is no device
		hasShm, want bool
	}{
		{"no device", 0, true, false},
		{"nothing", 0, false, false},
		{"device", 0o660, false, true},
		{"both", 0o660, true, true},
		{"both, device may only be read", 0o440, true, false},
		{"device that may only be read", 0o440, false, true},
	} {
		m := newEmulated(t)
		channels := m.channels()
		if c.mode != 0 {
			do(t, m.Create("imu", 4, 64))
			do(t, os.Chmod(m.path("imu"), c.mode))
		}
		if c.hasShm {
			do(t, os.WriteFile(channels.shm.Path("imu"), nil, 0o600))
		}
		if got := channels.Opens("imu"); got != c.want {
			t.Errorf("%s: Opens(imu) = %v, want %v", c.what, got, c.want)
		}
	}
}
