package discovery

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"achbridge/testnet/await"
)

// orders is the environment variable with the order for a node process. Each node of the multicast tests is a process of
// this test program, since a network namespace belongs to a thread and goroutines change threads.
const orders = "ACHBRIDGE_DISCOVERY_NODE"

func TestMain(m *testing.M) {
	if text := os.Getenv(orders); text != "" {
		os.Exit(beNode(text))
	}
	// Nodes mostly wait for each other, so run eight tests in parallel, unless -parallel sets
	// another number.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(await.Main(m))
}

// order configures a node process.
type order struct {
	Announce, Watch bool
	Browse          time.Duration
	Config          struct {
		Self       Peer
		Lifetime   time.Duration
		Port       int
		Interfaces []string
	}
	Peers []string // listed peers
}

// report is a line of output of a node process.
type report struct {
	Peers    []Peer // the result of Hosts
	Claims   []Peer // the peers that Run passed to its function
	SelfHost string
	Table    bool   // Peers is set
	End      bool   // this is the last line
	Leak     string // goroutines that have not ended
	Err      string
}

// beNode runs a node with the given order until stdin ends. A line on stdin is a new list of channel names.
func beNode(text string) int {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	o.Config.Self.lifetime = o.Config.Lifetime
	cfg := Config{Self: o.Config.Self, Port: o.Config.Port, Interfaces: o.Config.Interfaces,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	for _, p := range o.Peers {
		s, err := ParseStatic(p)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		cfg.Static = append(cfg.Static, s)
	}
	out := json.NewEncoder(os.Stdout)
	end := report{End: true}
	if err := obey(o, cfg, out); err != nil {
		end.Err = err.Error()
	}
	// zeroconf's prober sleeps after Shutdown. readChannels blocks until stdin ends.
	if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/grandcat/zeroconf.(*Server).probe"),
		goleak.IgnoreAnyFunction("achbridge/discovery.readChannels")); err != nil {
		end.Leak = err.Error()
	}
	out.Encode(end)
	return 0
}

func obey(o order, cfg Config, out *json.Encoder) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if o.Browse > 0 {
		peers, err := Browse(ctx, cfg, o.Browse)
		out.Encode(report{Peers: peers, Table: true})
		return err
	}
	var wg sync.WaitGroup
	var a *Announcer
	var errs [2]error
	if o.Announce {
		var err error
		if a, err = NewAnnouncer(cfg); err != nil {
			return err
		}
		wg.Go(func() { errs[0] = a.Run(ctx) })
	}
	if o.Watch {
		b, err := NewBrowser(cfg)
		if err != nil {
			return err
		}
		wg.Go(func() {
			errs[1] = b.Run(ctx, func(ps []Peer) {
				out.Encode(report{Peers: Hosts(ps), Claims: ps, Table: true, SelfHost: b.selfHost()})
			})
		})
	}
	go readChannels(a, cancel)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func readChannels(a *Announcer, end func()) {
	defer end()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var channels []Channel
		for _, name := range strings.Fields(in.Text()) {
			channels = append(channels, Channel{name, 16, 512})
		}
		a.Update(channels)
	}
}

// process is a running node process.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{} // closed when the process has ended

	mu      sync.Mutex
	tables  []report // all reports with a table, oldest first
	end     report
	stderr  bytes.Buffer
	changed chan struct{} // closed and replaced when tables, end or stderr change
}

// startNode starts a node on a host, or on this machine if h is nil. The node ends with the test at the latest.
func startNode(t *testing.T, h *host, o order) *process {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command("/proc/self/exe"), done: make(chan struct{}), changed: make(chan struct{})}
	// zeroconf has data races of its own; judgeRaces filters reports of them.
	p.cmd.Env = append(os.Environ(), orders+"="+string(text), "GORACE=exitcode=0")
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err != nil {
		t.Fatal(err)
	}
	errs := &p.stderr
	p.cmd.Stderr = errs
	start := p.cmd.Start
	if h != nil {
		start = func() error { return h.start(p.cmd) }
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	go p.read(stdout)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("stderr of %s:\n%s", o.Config.Self.Host, errs)
		}
		judgeRaces(t, errs.String())
	})
	return p
}

func (p *process) read(stdout io.Reader) {
	dec := json.NewDecoder(stdout)
	for {
		var r report
		if dec.Decode(&r) != nil {
			break
		}
		p.mu.Lock()
		if r.Table {
			p.tables = append(p.tables, r)
		} else {
			p.end = r
		}
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
	p.cmd.Wait()
	close(p.done)
}

// judgeRaces fails the test for each reported race that does not involve zeroconf.
func judgeRaces(t *testing.T, stderr string) {
	t.Helper()
	for _, part := range strings.Split(stderr, "==================") {
		if strings.Contains(part, "DATA RACE") && !strings.Contains(part, "grandcat/zeroconf") {
			t.Errorf("race of our own:\n%s", part)
		}
	}
}

// kill kills the node, which then sends no goodbye.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// quit stops the node, which then sends its goodbyes.
func (p *process) quit() {
	p.t.Helper()
	p.stdin.Close()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.end.End || p.end.Err != "" || p.end.Leak != "" {
		p.t.Errorf("got end %+v, want one without error or leak", p.end)
	}
}

func (p *process) announce(channels string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, channels+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// last returns the newest table, and a channel that is closed when there is a newer one.
func (p *process) last() (report, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tables) == 0 {
		return report{}, p.changed
	}
	return p.tables[len(p.tables)-1], p.changed
}

// waitFor waits for a table for which ok returns true.
func (p *process) waitFor(what string, ok func([]Peer) bool) {
	p.t.Helper()
	limit := time.After(await.Limit)
	for {
		r, moved := p.last()
		if ok(r.Peers) {
			return
		}
		select {
		case <-moved:
		case <-limit:
			p.t.Fatalf("got %v after %v, want %s", r.Peers, await.Limit, what)
		}
	}
}

// history returns all tables so far.
func (p *process) history() []report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tables[:len(p.tables):len(p.tables)]
}

// selfHost returns the name of this node on other hosts: Self.Host, or NAME-ab12 while a node with a lower id announces the
// same name. It is safe for concurrent use.
func (b *Browser) selfHost() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.host
}
