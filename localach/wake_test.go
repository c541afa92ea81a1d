package localach_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

func TestBroadcastLeavesSameStateAsGlibc(t *testing.T) {
	bin := built(t, "cc", "condvar", "testdata/condvar.c")
	for seed := range need.LongOr(3, 1) {
		got := start(t, exec.Command(bin, fmt.Sprint(seed), fmt.Sprint(need.LongOr(3_000_000, 100_000)))).result()
		if got["layout"] == 0 || got["different"] != 0 || got["woken"] != 3 {
			t.Errorf("seed %d: got %v, want no difference and 3 woken", seed, got)
		}
	}
	if !localach.WakesReaders() {
		t.Error("this C library's condition variables are not known: readers are not woken")
	}
}

func TestUnknownConditionVariableIsNotChanged(t *testing.T) {
	bin := built(t, "cc", "condvar-unknown", "-DUNKNOWN", "testdata/condvar.c")
	got := start(t, exec.Command(bin, "1", "1")).result()
	if _, ok := got["waiters"]; !ok || got["waiters"] != 0 || got["status"] != 0 || got["touched"] != 0 {
		t.Errorf("got %v, want no waiters, no error and no word touched", got)
	}
}

// C readers wait for our frames, with and without a time limit. Each put must wake all readers that wait.
func TestPutWakesAllWaitingReaders(t *testing.T) {
	for _, readers := range need.LongOr([]int{1, 2, 3, 4, 5, 6, 7, 8}, []int{1, 2, 5}) {
		t.Run(fmt.Sprint(readers), func(t *testing.T) {
			g := gather(t, readers)
			for g.puts < need.LongOr(10_000, 300) {
				g.burst()
				if !g.allSaw(await.Limit) {
					t.Fatalf("after %d puts: the newest frame is %d, the readers have seen %v; stuck for %v", g.puts, g.newest, g.lastSeen(), g.w.Stuck())
				}
			}
		})
	}
}

// Kills readers that wait, which may wedge the condition variable. Then Stuck must report it.
func TestKilledReadersAreReportedByStuck(t *testing.T) {
	t.Parallel()
	g, wedged := gather(t, 5), 0
	for kills := 0; kills < need.LongOr(100, 3); {
		g.burst()
		if rand.N(10) == 0 {
			slot := rand.N(len(g.readers))
			g.readers[slot].kill()
			g.follow(slot)
			kills++
		}
		if g.allSaw(200 * time.Millisecond) {
			continue
		}
		if g.w.Stuck() == 0 {
			// A killed reader may have held the variable's inner lock, for which a reader waits whose time
			// is over. The next put shows that.
			if g.burst(); g.allSaw(200 * time.Millisecond) {
				continue
			}
		}
		if g.w.Stuck() == 0 {
			t.Fatalf("after %d kills: the newest frame is %d, the readers have seen %v, and nothing is stuck", kills, g.newest, g.lastSeen())
		}
		wedged++
		g.recreate()
	}
	t.Logf("%d puts, wedged %d times", g.puts, wedged)
}

// With glibc up to 2.40, a reader that is stopped while it waits prevents waking others. When it continues, all must be woken,
// without another put.
func TestReadersWakeAfterStoppedReaderContinues(t *testing.T) {
	g, stuck := gatherAs(t, 4, "0"), 0
	createIn(t, g.d, "new", 4, 64)
	robust := condFrom241(t, pathOf(g.d, "new"))
	asleep := func() bool { st, err := g.c.Stat(); return err == nil && st.Waiters == len(g.readers) }
	begin := time.Now()
	for round := 0; round < need.LongOr(30, 3) || stuck == 0 && !robust; round++ {
		if time.Since(begin) > 2*await.Limit {
			t.Fatalf("never stuck in %d rounds: the test shows nothing", round)
		}
		await.True(t, "all wait", asleep)
		stopped := g.readers[0].cmd.Process
		if err := stopped.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			g.burst()
			for end := time.Now().Add(50 * time.Millisecond); g.w.Stuck() < 20*time.Millisecond && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
		}
		if g.w.Stuck() > 0 {
			stuck++
		}
		if err := stopped.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if !g.allSaw(await.Limit) {
			t.Fatalf("the newest frame is %d, the readers have seen %v; stuck for %v", g.newest, g.lastSeen(), g.w.Stuck())
		}
		await.True(t, "nobody is to be woken any more", func() bool { return g.w.Stuck() == 0 })
	}
}

// A put wakes a few readers itself, without another goroutine that would first have to wake up.
func TestPutWakesReadersWithoutGoroutine(t *testing.T) {
	g := gatherAs(t, 3, "0")
	await.True(t, "all wait", func() bool { st, err := g.c.Stat(); return err == nil && st.Waiters == len(g.readers) })
	before := broadcasters() // broadcasters of other tests' writers, which may still run
	seq, err := g.w.Put(make([]byte, 64))
	if err != nil {
		t.Fatal(err)
	}
	if g.newest = seq; !g.allSaw(await.Limit) {
		t.Fatalf("the newest frame is %d, the readers have seen %v", g.newest, g.lastSeen())
	}
	if broadcasters() > before {
		t.Error("a goroutine was started to wake them")
	}
}

// broadcasters returns the number of goroutines that wake readers.
func broadcasters() int {
	all := make([]byte, 1<<20)
	return bytes.Count(all[:runtime.Stack(all, true)], []byte("(*Writer).broadcast("))
}

// gathering is a channel and C readers that wait on it.
type gathering struct {
	t       *testing.T
	d       localach.Dir
	c       *localach.Channel
	w       *localach.Writer
	readers []*process
	limits  []string // time limits of the waits in microseconds, used in turn; 0 means none
	words   []byte   // the newest frame that each reader has seen
	newest  uint64
	puts    int
}

// gather starts readers that wait, half of them with a short or very long time limit.
func gather(t *testing.T, readers int) *gathering {
	return gatherAs(t, readers, "0", "200", "0", "3600000000")
}

func gatherAs(t *testing.T, readers int, limits ...string) *gathering {
	t.Helper()
	g := &gathering{t: t, d: privateDir(t), readers: make([]*process, readers), limits: limits}
	file, err := os.Create(filepath.Join(string(g.d), "seen"))
	if err == nil {
		err = file.Truncate(4096)
	}
	if err == nil {
		g.words, err = unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(g.words) })
	g.recreate()
	return g
}

// recreate replaces the channel, and starts all readers on the new one.
func (g *gathering) recreate() {
	g.t.Helper()
	old, oldWriter := g.c, g.w
	c, err := g.d.Create("imu", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: 64}, Replace: true})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	g.c, g.w, g.newest = c, c.Writer(), 0
	if old != nil {
		old.Poison()
		oldWriter.Close()
		old.Close()
	}
	for slot, r := range g.readers {
		if r != nil {
			r.kill()
		}
		g.follow(slot)
	}
}

// follow starts a reader.
func (g *gathering) follow(slot int) {
	g.t.Helper()
	binary.NativeEndian.PutUint64(g.words[8*slot:], 0)
	limit := g.limits[slot%len(g.limits)]
	g.readers[slot] = startPeer(g.t, pathOf(g.d, "imu"), "follow", filepath.Join(string(g.d), "seen"), fmt.Sprint(slot), limit).ready()
}

// burst puts a few frames with short pauses, in which readers may begin to wait.
func (g *gathering) burst() {
	g.t.Helper()
	frame := make([]byte, 64)
	for range 1 + rand.N(3) {
		for end := time.Now().Add(time.Duration(rand.N(20)) * time.Microsecond); time.Now().Before(end); {
		}
		seq, err := g.w.Put(frame)
		for limit := await.Deadline(); errors.Is(err, localach.ErrBusy) && time.Now().Before(limit); {
			seq, err = g.w.Put(frame) // on a busy machine a process may be descheduled while it holds the lock
		}
		if err != nil {
			g.t.Fatal(err)
		}
		g.newest = seq
		g.puts++
	}
}

func (g *gathering) lastSeen() []uint64 {
	all := make([]uint64, len(g.readers))
	for slot := range all {
		all[slot] = atomic.LoadUint64((*uint64)(unsafe.Pointer(&g.words[8*slot])))
	}
	return all
}

// allSaw waits until all readers have seen the newest frame. It returns false after the time limit, or if Stuck exceeds stuck.
func (g *gathering) allSaw(stuck time.Duration) bool {
	limit := await.Deadline()
	for n := 0; ; n++ {
		behind := false
		for _, seq := range g.lastSeen() {
			behind = behind || seq < g.newest
		}
		if !behind {
			return true
		}
		if time.Now().After(limit) || g.w.Stuck() > stuck {
			return false
		}
		if n > 50 {
			time.Sleep(20 * time.Microsecond)
		}
	}
}
