package testnet_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"achbridge/localach"
	"achbridge/testnet/hosts"
)

// The programs of the mirror tests are this test binary with programEnv set.
const programEnv = "TESTNET_TEST_PROGRAM"

func runProgram(name string, args []string) int {
	run := map[string]func([]string) error{"publish": publish, "reopening": reopening, "keeping": keeping}[name]
	if err := run(args); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		return 1
	}
	return 0
}

// publish COUNT SIZE BYTES puts frames of BYTES, stamped with the wall clock,
// into imu at 100 Hz, for ever.
func publish(args []string) error {
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(args[i]); err != nil {
			return err
		}
	}
	c, err := localach.Shm.Create("imu", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: n[0], FrameSize: n[1]}})
	if errors.Is(err, fs.ErrExist) {
		c, err = localach.Shm.Open("imu")
	}
	if err != nil {
		return err
	}
	writer, frame := c.Writer(), make([]byte, n[2])
	for range time.Tick(10 * time.Millisecond) {
		binary.BigEndian.PutUint64(frame, uint64(time.Now().UnixNano()))
		if _, err := writer.Put(frame); err != nil {
			return err
		}
	}
	return nil
}

// reopening reads the mirror and opens it anew whenever nothing comes.
func reopening([]string) error {
	for {
		readUntil(func(error) bool { return true })
	}
}

// keeping reads the mirror through one handle until that gives an error, which
// it prints; then through the next.
func keeping([]string) error {
	for {
		readUntil(func(err error) bool {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return false
			}
			fmt.Println("error", time.Now().UnixNano(), 0)
			return true
		})
	}
}

// readUntil opens the mirror and prints the stamp and size of each frame until
// ends says that an error ends it.
func readUntil(ends func(error) bool) {
	c, err := localach.Shm.Open("robot.imu")
	if err != nil {
		time.Sleep(20 * time.Millisecond)
		return
	}
	defer c.Close()
	reader, buf := c.Reader(), make([]byte, 1<<16)
	for {
		n, err := reader.Next(buf, 200*time.Millisecond)
		if err == nil && n >= 8 {
			fmt.Println("frame", binary.BigEndian.Uint64(buf), n)
		}
		if err != nil && ends(err) {
			return
		}
	}
}

func (w *world) start(host, name string, args ...string) *hosts.Cmd {
	c := w.lab.Command(host, os.Args[0], args...)
	c.Env = append(os.Environ(), programEnv+"="+name)
	c.Stderr = os.Stderr
	return c
}

// publish starts a publisher of imu on the robot.
func (w *world) publish(count, size, bytes string) *hosts.Cmd {
	w.t.Helper()
	c := w.start("robot", "publish", count, size, bytes)
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// follower is a reader of the mirror, watched by the test.
type follower struct {
	w    *world
	name string

	mu     sync.Mutex
	newest time.Time // stamp of the newest frame seen
	sizes  map[int]time.Time
	failed time.Time
}

// follow starts a reader on the PC: "reopening" or "keeping".
func (w *world) follow(name string) *follower {
	w.t.Helper()
	f := &follower{w: w, name: name, sizes: map[int]time.Time{}}
	c := w.start("pc", name)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f.saw(lines.Text())
		}
	})
	w.t.Cleanup(func() { c.Process.Kill(); watcher.Wait(); c.Wait() })
	return f
}

func (f *follower) saw(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var kind string
	var stamp int64
	var size int
	if _, err := fmt.Sscan(line, &kind, &stamp, &size); err != nil {
		f.w.t.Errorf("%s: got %q, want a line of ours", f.name, line)
		return
	}
	at := time.Unix(0, stamp)
	if kind == "error" {
		if f.failed.IsZero() {
			f.failed = at
		}
		return
	}
	if at.Before(f.newest) {
		f.w.t.Errorf("%s: got the frame of %v after that of %v, want never an older one", f.name, at, f.newest)
	}
	f.newest = at
	if f.sizes[size].IsZero() {
		f.sizes[size] = time.Now()
	}
}

// awaitFrameAfter waits until the reader has seen a frame put after t.
func (f *follower) awaitFrameAfter(t time.Time) {
	f.w.t.Helper()
	f.await(func() bool { return f.newest.After(t) }, "a frame put after the event")
}

// firstOfSize returns when the first frame of that size was seen.
func (f *follower) firstOfSize(size int) (at time.Time) {
	f.w.t.Helper()
	f.await(func() bool { at = f.sizes[size]; return !at.IsZero() }, "a frame of the new size")
	return at
}

// firstError returns when the reader first got an error.
func (f *follower) firstError() (at time.Time) {
	f.w.t.Helper()
	f.await(func() bool { at = f.failed; return !at.IsZero() }, "an error")
	return at
}

func (f *follower) await(done func() bool, what string) {
	f.w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		f.mu.Lock()
		ok := done()
		f.mu.Unlock()
		if ok {
			return
		}
	}
	f.w.t.Fatalf("%s: got nothing in 10s, want %s", f.name, what)
}
