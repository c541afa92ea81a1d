package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/kept"
	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// keptHost is a robot whose daemon keeps the newest frame of channel map. A program puts numbered frames into it.
type keptHost struct {
	t     *testing.T
	dir   localach.Dir
	state string
	files []string // configuration and key
}

var keptGeometry = localach.Geometry{FrameCount: 4, FrameSize: 1_000_000}

func newKeptHost(t *testing.T, state string) *keptHost {
	need.Processes(t)
	h := &keptHost{t: t, state: state}
	h.reboot()
	work := t.TempDir()
	h.files = []string{filepath.Join(work, "achbridge.yaml"), filepath.Join(work, "key")}
	text := fmt.Sprintf("name: krang\nchannels:\n  - {name: map, frames: %d, size: %d, keep: last}\n", keptGeometry.FrameCount, keptGeometry.FrameSize)
	if err := os.WriteFile(h.files[0], []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("achbridge", "key", "new", "--key", h.files[1]).CombinedOutput(); err != nil {
		t.Fatalf("key new: %v\n%s", err, out)
	}
	return h
}

// reboot empties the channel directory.
func (h *keptHost) reboot() {
	h.t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "achbridge-test-")
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { os.RemoveAll(dir) })
	h.dir = localach.Dir(dir)
}

// launch starts the daemon. kill sends it a signal and waits for its end; answers waits until it answers requests.
func (h *keptHost) launch() (kill func(os.Signal), answers func()) {
	h.t.Helper()
	socket := filepath.Join(h.t.TempDir(), "s")
	cmd := exec.Command("achbridge", "run", "--config", h.files[0], "--key", h.files[1], "--state", h.state, "--control", socket,
		"--no-discovery", "--listen", "127.0.0.1:"+strconv.Itoa(freePort()))
	cmd.Env = append(os.Environ(), "ACHBRIDGE_SHM="+string(h.dir))
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	kill = func(s os.Signal) {
		_ = cmd.Process.Signal(s)
		<-ended
	}
	h.t.Cleanup(func() { kill(syscall.SIGKILL) })
	return kill, func() {
		h.t.Helper()
		await.Return(h.t, "the daemon answers", func() { _ = api.New(socket).Answers(h.t.Context()) })
	}
}

// start starts the daemon and waits until it answers.
func (h *keptHost) start() (kill func(os.Signal)) {
	h.t.Helper()
	kill, answers := h.launch()
	answers()
	return kill
}

// killSometime starts a daemon and kills it after a random time. A daemon stores a frame when it starts, which takes about 40 ms, and
// the next one a second later.
func (h *keptHost) killSometime() {
	h.t.Helper()
	kill, _ := h.launch()
	time.Sleep(20*time.Millisecond + rand.N(60*time.Millisecond) + time.Duration(rand.IntN(2))*kept.Period)
	kill(syscall.SIGKILL)
}

// killInWrite starts a daemon and kills it when it has begun to write a file, most often before the file is complete.
func (h *keptHost) killInWrite() {
	h.t.Helper()
	for _, draft := range h.drafts() {
		os.Remove(draft)
	}
	kill, _ := h.launch()
	for begin := time.Now(); len(h.drafts()) == 0 && time.Since(begin) < 3*kept.Period; {
		time.Sleep(100 * time.Microsecond) // a draft, an unfinished file, exists for some milliseconds
	}
	time.Sleep(rand.N(2 * time.Millisecond))
	kill(syscall.SIGKILL)
}

// makeNumbered returns a frame that holds its number, in any size, with a checksum.
func makeNumbered(n uint64) []byte {
	frame := make([]byte, 16+rand.IntN(keptGeometry.FrameSize-16))
	binary.LittleEndian.PutUint64(frame, n)
	for i := 8; i < len(frame)-4; i++ {
		frame[i] = byte(n) ^ byte(i)
	}
	binary.LittleEndian.PutUint32(frame[len(frame)-4:], crc32.ChecksumIEEE(frame[:len(frame)-4]))
	return frame
}

// numberOf returns the number of a frame of makeNumbered, and fails the test if the frame is not whole.
func (h *keptHost) numberOf(frame []byte) uint64 {
	h.t.Helper()
	if len(frame) < 16 || binary.LittleEndian.Uint32(frame[len(frame)-4:]) != crc32.ChecksumIEEE(frame[:len(frame)-4]) {
		h.t.Fatalf("got a frame of %d bytes that is not whole", len(frame))
	}
	return binary.LittleEndian.Uint64(frame)
}

// stored returns the number of the stored frame, 0 if there is no file.
func (h *keptHost) stored() uint64 {
	h.t.Helper()
	frame, err := kept.New(h.dir, filepath.Join(h.state, "frames")).Frame("map", keptGeometry)
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		h.t.Fatalf("the stored frame: %v", err)
	}
	return h.numberOf(frame)
}

// drafts returns the paths of the files that are being written.
func (h *keptHost) drafts() []string {
	list, _ := filepath.Glob(filepath.Join(h.state, "frames", config.DraftPattern))
	return list
}

// newest returns the number of the newest frame of the channel, and its sequence number.
func (h *keptHost) newest() (number, seq uint64) {
	h.t.Helper()
	ch, err := h.dir.Open("map")
	if err != nil {
		h.t.Fatal(err)
	}
	defer ch.Close()
	buf := make([]byte, keptGeometry.FrameSize)
	n, err := ch.Reader().Last(buf)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.numberOf(buf[:n]), ch.LastSeq()
}

// put puts numbered frames until the function that it returns is called, which returns the last number.
func (h *keptHost) put(from uint64) (stop func() uint64) {
	h.t.Helper()
	ch, err := h.dir.Open("map")
	if err != nil {
		h.t.Fatal(err)
	}
	w, last, end, ended := ch.Writer(), from-1, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
			case <-end:
				return
			}
			if _, err := w.Put(makeNumbered(last + 1)); err != nil {
				h.t.Errorf("put: %v", err)
				return
			}
			last++
		}
	}()
	return func() uint64 {
		close(end)
		<-ended
		w.Close()
		ch.Close()
		return last
	}
}

func TestKilledDaemonLeavesWholeFrame(t *testing.T) {
	t.Parallel()
	h := newKeptHost(t, t.TempDir())
	h.start()(syscall.SIGTERM) // creates the channel
	stop := h.put(1)
	var stored uint64
	writes, interrupted := 0, 0
	for i := range need.LongOr(200, 10) {
		if i%2 == 0 {
			h.killSometime()
		} else {
			h.killInWrite()
		}
		now := h.stored()
		if now < stored {
			t.Fatalf("frame %d is stored after frame %d", now, stored)
		}
		if now > stored {
			writes++
		}
		stored = now
		drafts := h.drafts()
		interrupted += len(drafts)
		if len(drafts) > 1 {
			t.Fatalf("got the drafts %q, want one at most", drafts)
		}
	}
	t.Logf("of %d frames that were written, %d were interrupted by a kill", writes, interrupted)
	if writes < 3 {
		t.Errorf("%d frames were stored, want 3 at least", writes)
	}
	kill := h.start()
	last := stop()
	kill(syscall.SIGTERM)
	if stored := h.stored(); stored != last {
		t.Errorf("frame %d is stored at the daemon's end, want the last one, %d", stored, last)
	}

	h.reboot()
	h.start()(syscall.SIGKILL)
	for range 2 {
		h.start()(syscall.SIGTERM)
		if number, seq := h.newest(); number != last || seq != 1 {
			t.Errorf("after a reboot the channel has frame %d as its number %d, want %d as its first", number, seq, last)
		}
	}
	h.put(last + 1)()
	stop = h.put(last + 1)
	await.True(t, "a new frame", func() bool { _, seq := h.newest(); return seq > 1 })
	last = stop()
	h.start()(syscall.SIGTERM)
	if number, _ := h.newest(); number != last {
		t.Errorf("a restart changed the newest frame from %d to %d", last, number)
	}
}

// The file must stay whole on a full disk, and be replaced when there is room again.
func TestFullDiskKeepsStoredFrame(t *testing.T) {
	need.Long(t)
	if os.Geteuid() != 0 {
		t.Skip("mounts a file system: run as root")
	}
	state := t.TempDir()
	if err := unix.Mount("tmpfs", state, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("cannot mount a file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(state, unix.MNT_DETACH) })
	h := newKeptHost(t, state)
	kill := h.start()
	h.put(1)()
	stop := h.put(1)
	await.True(t, "a stored frame", func() bool { return h.stored() > 0 })

	ballast := filepath.Join(state, "ballast")
	fill := func() {
		f, err := os.OpenFile(ballast, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
	}
	fill()
	full := h.stored()
	for end := time.Now().Add(4 * kept.Period); time.Now().Before(end); time.Sleep(time.Millisecond) {
		full = max(full, h.stored()) // a small frame may still fit
		fill()
	}
	kill(syscall.SIGKILL)
	whole := h.stored()
	if whole < full {
		t.Errorf("frame %d is stored after frame %d", whole, full)
	}
	kill = h.start()
	time.Sleep(2 * kept.Period)
	if h.stored() == 0 {
		t.Error("the stored frame is gone")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	before := h.stored()
	await.True(t, "a newer frame is stored", func() bool { return h.stored() > before })
	last := stop()
	kill(syscall.SIGTERM)
	if stored := h.stored(); stored != last {
		t.Errorf("frame %d is stored at the daemon's end, want the last one, %d", stored, last)
	}
}
