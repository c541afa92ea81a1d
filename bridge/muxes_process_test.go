package bridge

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/bridge/mirror"
	"achbridge/bridge/mux"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/trust"
	"achbridge/localach"
	"achbridge/testnet/need"
	"achbridge/wire"
)

// muxProcess is a node in its own process that runs a mux.
type muxProcess struct {
	*child
	tb       testing.TB
	dir      localach.Dir
	key, mux string
}

// newMuxProcess makes the inputs and starts the node.
func newMuxProcess(tb testing.TB, size int, mux string, inputs ...string) *muxProcess {
	tb.Helper()
	top := string(testDir(tb))
	p := &muxProcess{tb: tb, dir: localach.Dir(top + "/robot"), key: top + "/key", mux: mux}
	if err := os.Mkdir(string(p.dir), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := trust.NewKey().Write(p.key); err != nil {
		tb.Fatal(err)
	}
	for _, name := range inputs {
		ch, err := p.dir.Create(name, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: size}})
		if err != nil {
			tb.Fatal(err)
		}
		ch.Close()
	}
	p.start()
	return p
}

func (p *muxProcess) start() {
	p.tb.Helper()
	p.child, _ = play(p.tb, p.key, "robot", string(p.dir))
	p.ask("mux " + p.mux)
}

func (p *muxProcess) open(name string) *localach.Channel {
	p.tb.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		ch, err := p.dir.Open(name)
		if err == nil {
			return ch
		}
		if time.Now().After(end) {
			p.tb.Fatal(err)
		}
	}
}

// Three programs put at 1 kHz, in frames of 64 KiB, while the daemon is killed again and again. Readers of the output
// never get a damaged frame, and the next daemon goes on.
func TestKilledMuxLeavesOutputIntact(t *testing.T) {
	measured(t)
	const size = 64 << 10
	names := []string{"a", "b", "c"}
	p := newMuxProcess(t, size, "ref a,live=1s b,live=1s c,live=1s", names...)
	var ended atomic.Bool
	var writers sync.WaitGroup
	for i, name := range names {
		ch := p.open(name)
		writers.Go(func() {
			defer ch.Close()
			w := ch.Writer()
			defer w.Close()
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for n := uint64(1); !ended.Load(); n++ {
				if _, err := w.Put(frame(3*n+uint64(i), size)); err != nil && !errors.Is(err, localach.ErrBusy) {
					t.Error(err)
					return
				}
				<-tick.C
			}
		})
	}
	defer writers.Wait()
	defer ended.Store(true)
	frames, dirty := 0, 0
	buf := make([]byte, 20*size)
	for kill := range need.LongOr(200, 10) {
		ch := p.open("ref")
		r := ch.Reader()
		for end := time.Now().Add(time.Duration(20+kill%7) * time.Millisecond); time.Now().Before(end); {
			n, err := r.Next(buf, 10*time.Millisecond)
			if errors.Is(err, localach.ErrCorrupt) {
				break // the daemon has replaced the file that its predecessor left dirty
			}
			if err != nil {
				continue
			}
			frames++
			number := binary.LittleEndian.Uint64(buf)
			if n != size || !bytes.Equal(buf[16:n], bytes.Repeat([]byte{byte(number)}, n-16)) {
				t.Fatalf("kill %d: frame %d of %d bytes is damaged", kill, number, n)
			}
		}
		p.cmd.Process.Kill()
		p.end()
		if _, err := r.Last(buf); errors.Is(err, localach.ErrDirty) {
			dirty++ // killed inside the put, as any writer may be
		} else if err != nil && !errors.Is(err, localach.ErrCorrupt) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("kill %d: the output after it: %v", kill, err)
		}
		ch.Close()
		p.start()
	}
	ch := p.open("ref")
	defer ch.Close()
	before := ch.LastSeq()
	time.Sleep(100 * time.Millisecond)
	if after := ch.LastSeq(); after == before {
		t.Error("the output has no new frame after the last start")
	}
	t.Logf("%d intact frames, %d times killed inside a put", frames, dirty)
	if frames == 0 {
		t.Error("no frame was read")
	}
}

// The mirror of an input gets bursts of frames, as after a stall of the radio. While the mux reads one frame, the mirror
// puts the next one.
func TestBurstsKeepMuxInputLive(t *testing.T) {
	measured(t)
	dir := testDir(t)
	watcher, err := localach.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer work.Wait()
	defer cancel()
	work.Go(func() { watcher.Run(ctx) })
	start := time.Now().Add(-time.Second)
	now := func() time.Duration { return time.Since(start) }
	log := slog.New(slog.DiscardHandler)
	noSuspend := func() time.Duration { return 0 }
	common := mirror.Config{
		Host: "pc", Dir: dir, Space: mirror.NewSpace(dir), Log: log, Events: &status.Journal{Log: log}, Spawn: work.Go,
		Clock: mirror.Clock{Now: now, Suspended: noSuspend},
	}
	newMirror := func(name string, qos rule.QoS) *mirror.Mirror {
		common.Name, common.Channel = name, name
		return mirror.New(common, qos, nil)
	}
	qos, feed := rule.QoS{Class: rule.Command, Budget: time.Second}, &mirror.Feed{Epoch: 7}
	goal, r := newMirror("goal", qos), muxOf("goal")
	if err := goal.Open(wire.Channel{Name: "goal", Epoch: 7, FrameCount: 16, FrameSize: 64}, [16]byte{1}, "", qos); err != nil {
		t.Fatal(err)
	}
	goal.Subscribe(feed, qos)
	if _, err := goal.Begin(7, 0, 0); err != nil {
		t.Fatal(err)
	}
	r.Inputs[0].Live = time.Second
	output := newMirror("ref", r.QoS())
	m := mux.Start(ctx, mux.Config{
		Dir: dir, Source: ShmSource(dir, watcher), Clock: ring.Clock{Now: now, LastPoll: now}, Monotonic: mirror.Clock{Suspended: noSuspend}, Events: common.Events, Spawn: work.Go,
	}, r, []mux.InputFacts{{Mirror: goal}}, output)
	time.Sleep(50 * time.Millisecond)
	for burst := range uint64(need.LongOr(2000, 300)) {
		for i := range uint64(4) {
			at := now()
			goal.Put(mirror.Arrival{
				From: feed, Epoch: 7, Seq: 4*burst + i + 1, Captured: at - time.Millisecond, Data: frame(burst, 64), Sent: 64,
				At: mirror.Reading{Now: at, Known: true},
			})
		}
		time.Sleep(2 * time.Millisecond)
	}
	in, safe := m.Status(now()).Inputs[0], output.Status(now(), mirror.Reading{Now: now()}, "").Safe
	if in.Refused != 0 || safe > 1 {
		t.Errorf("got %+v and %d safe frames, want none refused, and at most the safe frame of the start", in, safe)
	}
}

// BenchmarkMuxLatency measures the time from the put of a C program at 1 kHz into an input until another C program has
// the frame from the output, and in the same run how long a watcher takes to notice the put. The goal for p50 is at most
// twice the watcher's time.
func BenchmarkMuxLatency(b *testing.B) {
	program := plainPeer(b)
	for b.Loop() {
		p := newMuxProcess(b, 64, "ref a,live=1s b,live=1s", "a", "b")
		watcher, err := localach.NewWatcher()
		if err != nil {
			b.Fatal(err)
		}
		var work sync.WaitGroup
		work.Go(func() { watcher.Run(b.Context()) })
		in, buf := p.open("a"), make([]byte, 64)
		r := in.Reader()
		var seen []float64
		notice := watcher.Watch(in, func(uint64) {
			now := status.Monotonic(time.Now())
			if n, err := r.TryNext(buf); err == nil && n == len(buf) {
				seen = append(seen, float64(now)-float64(binary.LittleEndian.Uint64(buf[16:])))
			}
		})
		writer := exec.Command(program, p.dir.Path("a"), "put", "3000", "64", "1000000", "1")
		reader := exec.Command(program, p.dir.Path("ref"), "get", "1500", "wl", "5000")
		var out bytes.Buffer
		reader.Stdout, reader.Stderr = &out, os.Stderr
		if err := writer.Start(); err != nil {
			b.Fatal(err)
		}
		p.open("ref").Close() // the first frame makes it
		if err := reader.Start(); err != nil {
			b.Fatal(err)
		}
		if err := reader.Wait(); err != nil {
			b.Fatalf("%v: %s", err, out.Bytes())
		}
		if err := writer.Wait(); err != nil {
			b.Fatal(err)
		}
		notice.Close()
		in.Close()
		slices.Sort(seen)
		through, noticed := figures(out.Bytes())["p50_ns"], seen[len(seen)/2]
		b.ReportMetric(through/1e3, "mux-p50-µs")
		b.ReportMetric(noticed/1e3, "watcher-p50-µs")
		b.ReportMetric(through/noticed, "mux/watcher≤2")
		p.end()
	}
	b.ReportMetric(0, "ns/op")
}
