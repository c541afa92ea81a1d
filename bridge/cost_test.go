package bridge

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
	"achbridge/localach"
	"achbridge/testnet"
	"achbridge/testnet/need"
)

// relay is a channel of one node and its mirror at another, joined by a pipe. It includes
// everything between the put and the mirror's put, except the network and the watcher.
type relay struct {
	t        testing.TB
	w        *localach.Writer
	mirrored *localach.Channel
	frame    []byte
	origin   *Node
	wake     func(uint64)
	wait     func() // blocks until the mirror can have the frame
}

// handSource is a Source whose user reports new data by calling a function.
type handSource struct {
	names []string
	wake  chan func(uint64)
}

func (s handSource) Changes(ctx context.Context, f func(localach.Event)) error {
	for _, name := range s.names {
		f(localach.Event{Kind: localach.Appeared, Name: name})
	}
	<-ctx.Done()
	return nil
}

func (s handSource) LastPoll() time.Time { return time.Now() }

func (s handSource) NewData(_ *localach.Channel, f func(uint64)) func() {
	s.wake <- f
	return func() {}
}

// newRelay mirrors a channel with frames of size bytes.
func newRelay(t testing.TB, size int, options string) *relay {
	t.Helper()
	robot, pc := shmDir(t), shmDir(t)
	ch, err := robot.Create("imu", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: size}})
	if err != nil {
		t.Fatal(err)
	}
	source := &handSource{names: []string{"imu"}, wake: make(chan func(uint64), 1)}
	net, key := testnet.NewNetwork(1), trust.NewKey()
	start := func(host string, dir localach.Dir, source Source) *Node {
		t.Helper()
		conn, err := net.Host(host, testnet.Params{}).Listen(port)
		if err != nil {
			t.Fatal(err)
		}
		c := transport.Config{Key: key, Host: host}
		copy(c.Node[:], host)
		end, err := transport.Listen(conn, c)
		if err != nil {
			t.Fatal(err)
		}
		return startNode(t, dir, source, end, c)
	}
	origin, reader := start("robot", robot, source), start("pc", pc, &handSource{})
	time.Sleep(time.Millisecond) // in virtual time the nodes' clocks show 0 before, which means never
	there, back := session.Pipe(trust.Peer{Node: origin.cfg.Node, Host: "robot"}, trust.Peer{Node: reader.cfg.Node, Host: "pc"})
	origin.loop.call(func() { origin.linkUp(there) })
	reader.loop.call(func() { reader.linkUp(back) })
	m, err := rule.ParseMirror(strings.TrimSuffix("robot/imu,"+options, ","), nil)
	if err == nil {
		err = reader.Mirror(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, origin: origin, w: ch.Writer(), frame: make([]byte, size), wake: <-source.wake, wait: runtime.Gosched}
	eventually(t, "the mirror's file", 10*time.Second, func() bool {
		r.mirrored, err = pc.Open("robot.imu")
		return err == nil
	})
	t.Cleanup(func() {
		r.w.Close()
		r.mirrored.Close()
		ch.Close()
	})
	return r
}

// startNode starts a node that has no peers.
func startNode(t testing.TB, dir localach.Dir, source Source, end *transport.Endpoint, c transport.Config) *Node {
	t.Helper()
	n, err := New(Config{Host: c.Host, Node: c.Node, Dir: dir, Source: source, Endpoint: end})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { n.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		run.Wait()
		end.Close()
	})
	return n
}

// shmDir returns a new directory in shared memory.
func shmDir(t testing.TB) localach.Dir {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "bridge-cost-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return localach.Dir(dir)
}

// carry puts a frame and waits until the mirror has it.
func (r *relay) carry() {
	seq, err := r.w.Put(r.frame)
	if err != nil {
		r.t.Fatal(err)
	}
	before := r.mirrored.LastSeq()
	r.wake(seq)
	for begin := time.Now(); r.mirrored.LastSeq() == before; {
		r.wait()
		if time.Since(begin) > 10*time.Second {
			r.t.Fatalf("frame %d is not in the mirror", seq)
		}
	}
}

// TestFramesCostNoAllocation allows the documented allocations of session.Pipe, and one allocation
// per twenty frames for the daemons' other work: periodic checks, frame counters, one-time growth.
// In virtual time that work takes as long on a busy machine as on an idle one. The least of three rounds counts, since a
// garbage collection during a round empties pools.
func TestFramesCostNoAllocation(t *testing.T) {
	need.NoRace(t)
	const perSlab = 218
	for _, c := range []struct {
		name                  string
		size, packets, frames int
		options               string
	}{
		{"one packet", 64, 1, 8000, ""},
		{"many packets", 20000, 19, 1000, "compress=none"},
		{"many packets, packed", 20000, 1, 1000, "compress=zstd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRelay(t, c.size, c.options)
				r.wait = func() { time.Sleep(50 * time.Microsecond) }
				for range c.frames / 4 {
					r.carry()
				}
				begin, got := time.Now(), uint64(math.MaxUint64)
				for range 3 {
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					for range c.frames {
						r.carry()
					}
					runtime.ReadMemStats(&after)
					got = min(got, after.Mallocs-before.Mallocs)
				}
				if most := c.frames*c.packets/perSlab + c.frames/20; got > uint64(most) {
					t.Errorf("got %d allocations for %d frames, want at most %d", got, c.frames, most)
				}
				t.Logf("%d allocations for %d frames in %v", got, c.frames, time.Since(begin))
			})
		})
	}
}

// BenchmarkRelay measures only our own packages, with both ends in one process.
func BenchmarkRelay(b *testing.B) {
	for _, size := range []int{64, 20000} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			r := newRelay(b, size, "compress=none")
			b.ReportAllocs()
			for b.Loop() {
				r.carry()
			}
		})
	}
}
