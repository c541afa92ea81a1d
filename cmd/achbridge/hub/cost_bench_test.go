package hub

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"achbridge/bridge/hub"
	"achbridge/cmd/achbridge/config"
	"achbridge/testnet/await"
)

// asHub names an environment variable. If it is set, this program runs the hub of that directory,
// so that a benchmark measures the cost of a hub without its hosts.
const asHub = "ACHBRIDGE_TEST_HUB"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asHub); dir != "" {
		os.Exit(beHub(Directory(dir)))
	}
	os.Exit(await.Main(m))
}

func beHub(d Directory) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := Defaults()
	cfg.Dir, cfg.Listen, cfg.Log = d, strings.TrimPrefix(os.Getenv(asHub+"_LISTEN"), "tls://"), slog.New(slog.NewTextHandler(os.Stderr, nil))
	cfg.Places = config.Places{Env: func(string) string { return "" }, UID: os.Getuid()}
	s, err := New(cfg)
	if err == nil {
		err = s.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// process is a hub in a separate process.
type process struct {
	*exec.Cmd
	dir     Directory
	address string
}

func startHub(b *testing.B) *process {
	b.Helper()
	p := &process{dir: Directory(filepath.Join(b.TempDir(), "hub")), address: "tls://127.0.0.1:" + freePort(b)}
	if _, err := p.dir.Init(p.address); err != nil {
		b.Fatal(err)
	}
	p.Cmd = exec.Command(os.Args[0])
	p.Env = append(os.Environ(), asHub+"="+string(p.dir), asHub+"_LISTEN="+p.address)
	if err := p.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Process.Signal(syscall.SIGTERM); _ = p.Wait() })
	return p
}

// spent returns the CPU time that the hub has used so far.
func (p *process) spent(b *testing.B) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+2:])
	var user, system int64
	fmt.Sscan(fields[11], &user)
	fmt.Sscan(fields[12], &system)
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
}

// resident returns the resident memory of the hub, in bytes.
func (p *process) resident(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	var size, resident float64
	fmt.Sscan(string(text), &size, &resident)
	return resident * float64(os.Getpagesize())
}

// join connects a host to the hub until the benchmark ends.
func (p *process) join(b *testing.B, host string) *hub.Client {
	b.Helper()
	path := filepath.Join(b.TempDir(), host+".creds")
	if err := p.dir.Add(host, path); err != nil {
		b.Fatal(err)
	}
	creds, err := hub.ReadCredentials(path)
	if err != nil {
		b.Fatal(err)
	}
	c, err := hub.New(hub.Config{Credentials: creds})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-done })
	return c
}

// BenchmarkHub measures the CPU time of a hub for each frame that it receives, and for each
// frame that it sends to a reader. One robot puts frames. The hub is a separate process on
// this machine.
func BenchmarkHub(b *testing.B) {
	for _, c := range []load{{1, 1000, 200, 600}, {10, 1000, 200, 600}, {50, 1000, 200, 600}, {10, 50_000, 20, 100}} {
		b.Run(fmt.Sprintf("readers=%d/size=%d", c.readers, c.size), func(b *testing.B) { c.run(b) })
	}
}

// load is the load of a hub in a benchmark: frames of size bytes, hz a second.
type load struct{ readers, size, hz, frames int }

func (l load) run(b *testing.B) {
	p := startHub(b)
	robot := p.join(b, "robot")
	var got atomic.Int64
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	idle := p.resident(b)
	for i := range l.readers {
		pc := p.join(b, fmt.Sprintf("pc%d", i)).Channel("robot", "imu")
		go func() {
			for {
				if _, err := pc.Next(ctx); err != nil {
					return
				}
				got.Add(1)
			}
		}()
	}
	channel := robot.Channel("robot", "imu")
	l.put(ctx, channel, 2*l.hz) // until all readers are connected
	before, had := p.spent(b), got.Load()
	b.ResetTimer()
	l.put(ctx, channel, l.frames)
	took, received := float64((p.spent(b) - before).Microseconds()), float64(got.Load()-had)
	b.ReportMetric(took/float64(l.frames), "cpu_us/frame")
	b.ReportMetric(took/max(received, 1), "cpu_us/frame/reader")
	b.ReportMetric(received/float64(l.frames*l.readers), "received/frame")
	b.ReportMetric((p.resident(b)-idle)/float64(l.readers)/1024, "KiB/host")
	b.ReportMetric(p.resident(b)/(1<<20), "MiB")
	b.ReportMetric(0, "ns/op")
}

func (l load) put(ctx context.Context, channel *hub.Channel, n int) {
	frame := make([]byte, l.size)
	tick := time.NewTicker(time.Second / time.Duration(l.hz))
	defer tick.Stop()
	for range n {
		<-tick.C
		for ctx.Err() == nil {
			if _, err := channel.Put(ctx, frame); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond) // the host is not connected yet
		}
	}
}
