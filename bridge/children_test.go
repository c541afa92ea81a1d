package bridge

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/transport"
	"achbridge/localach"
	"achbridge/testnet/hosts"
)

// TestMain lets the test binary play a process of its own that a benchmark
// starts, so that each one's cost can be told from the others'.
func TestMain(m *testing.M) {
	hosts.Main()
	if role := roles[os.Getenv("BRIDGE_CHILD")]; role != nil {
		if err := role(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, os.Args, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "bridge-key-")
	if err != nil {
		panic(err)
	}
	os.Setenv(keyFile, filepath.Join(dir, "key"))
	if err := transport.NewKey().Write(os.Getenv(keyFile)); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// keyFile is the variable that names the file with the network key of all children.
const keyFile = "BRIDGE_CHILD_KEY"

var roles = map[string]func(args []string) error{
	"nodes": nodesRole, "writer": writerRole, "bare-sender": bareSenderRole, "bare-receiver": bareReceiverRole,
	"echo": echoRole, "ping": pingRole,
}

// child is a process that plays a role. It answers every line it gets.
type child struct {
	b   *testing.B
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Scanner
}

// play starts a child and returns when it is at work, with what it says then.
func play(b *testing.B, role string, args ...string) (c *child, hello string) {
	b.Helper()
	cmd := exec.Command(os.Args[0], args...)
	return playAs(b, role, cmd, cmd.Start)
}

// playOn is play on a host of a lab.
func playOn(b *testing.B, lab *hosts.Lab, host, role string, args ...string) (c *child, hello string) {
	b.Helper()
	cmd := lab.Command(host, os.Args[0], args...)
	return playAs(b, role, cmd.Cmd, cmd.Start)
}

func playAs(b *testing.B, role string, cmd *exec.Cmd, start func() error) (c *child, hello string) {
	b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd.Env, cmd.Stdin, cmd.Stderr = append(os.Environ(), "BRIDGE_CHILD="+role), r, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := start(); err != nil {
		b.Fatal(err)
	}
	r.Close()
	c = &child{b: b, cmd: cmd, in: w, out: bufio.NewScanner(out)}
	b.Cleanup(c.end)
	return c, c.answer()
}

func (c *child) answer() string {
	c.b.Helper()
	if !c.out.Scan() {
		c.b.Fatalf("%v: ended", c.cmd.Args)
	}
	return c.out.Text()
}

// ask gives the child a line and returns its answer.
func (c *child) ask(line string) string {
	c.b.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.b.Fatal(err)
	}
	return c.answer()
}

// end lets the child end by closing its input. Ending twice is harmless.
func (c *child) end() {
	c.in.Close()
	c.cmd.Wait()
}

// spent is what a child has used and done since it began.
type spent struct {
	CPU     time.Duration
	Memory  int64  // resident bytes
	Frames  uint64 // that it sent, or put into mirrors
	Packets uint64 // with frames, that it sent
}

func (c *child) spent() (s spent) {
	c.b.Helper()
	if err := json.Unmarshal([]byte(c.ask("spent")), &s); err != nil {
		c.b.Fatal(err)
	}
	return s
}

func (s spent) since(o spent) spent {
	return spent{s.CPU - o.CPU, s.Memory - o.Memory, s.Frames - o.Frames, s.Packets - o.Packets}
}

func (s spent) plus(o spent) spent {
	return spent{s.CPU + o.CPU, s.Memory + o.Memory, s.Frames + o.Frames, s.Packets + o.Packets}
}

// usage is what this process has used.
func usage() (s spent) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	s.CPU = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	statm, _ := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(statm))
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	shared, _ := strconv.ParseInt(fields[2], 10, 64)
	s.Memory = (pages - shared) * int64(os.Getpagesize())
	return s
}

// serve answers lines until the input ends; count adds what the role has done.
func serve(hello string, count func(*spent), other func(line string) error) error {
	fmt.Println(hello)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() != "spent" {
			if err := other(lines.Text()); err != nil {
				return err
			}
			fmt.Println("ok")
			continue
		}
		s := usage()
		count(&s)
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return lines.Err()
}

// listenAnywhere is an endpoint at a port of all interfaces.
func listenAnywhere(host string, number byte) (*transport.Endpoint, transport.NodeID, error) {
	id := transport.NodeID{0: 1, 15: number}
	copy(id[1:], host)
	key, err := transport.ReadKey(os.Getenv(keyFile))
	if err != nil {
		return nil, id, err
	}
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, id, err
	}
	end, err := transport.Listen(conn, transport.Config{Key: key, Node: id, Host: host})
	return end, id, err
}

// portOf is where an endpoint listens.
func portOf(end *transport.Endpoint) string {
	return strconv.Itoa(end.LocalAddr().(*net.UDPAddr).Port)
}

// nodesRole is HOST COUNT DIR [PEER]: as many nodes of their own directories, DIR0
// and so on, which dial PEER. Lines are "mirror X" and "unmirror X", for all of them,
// and "free" to give back unused memory.
func nodesRole(args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	var nodes []*Node
	hello := ""
	for i := range count {
		dir := localach.Dir(args[2] + strconv.Itoa(i))
		if err := os.MkdirAll(string(dir), 0o700); err != nil {
			return err
		}
		end, id, err := listenAnywhere(args[0], byte(i))
		if err != nil {
			return err
		}
		hello = portOf(end)
		watcher, err := localach.NewWatcher()
		if err != nil {
			return err
		}
		n, err := New(Config{Host: args[0], Node: id, Dir: dir, Source: ShmSource(dir, watcher), Endpoint: end})
		if err != nil {
			return err
		}
		work.Go(func() { watcher.Run(ctx) })
		work.Go(func() { n.Run(ctx); end.Close() })
		if len(args) > 3 {
			addr, err := net.ResolveUDPAddr("udp", args[3])
			if err != nil {
				return err
			}
			n.SetPeers([]Peer{{Addrs: []net.Addr{addr}, Static: true}})
		}
		nodes = append(nodes, n)
	}
	return serve(hello, func(s *spent) { countAll(nodes, s) }, func(line string) error {
		verb, what, _ := strings.Cut(line, " ")
		if verb == "free" {
			debug.FreeOSMemory()
			return nil
		}
		m, err := ParseMirror(what)
		for _, n := range nodes {
			if verb == "mirror" {
				err = n.Mirror(m)
			} else {
				err = n.Unmirror(m, Keep)
			}
		}
		return err
	})
}

// countAll adds what nodes have sent and put.
func countAll(nodes []*Node, s *spent) {
	for _, n := range nodes {
		n.call(func() {
			for _, l := range n.links {
				l.mu.Lock()
				s.Packets += l.flight.NextNumber(n.now()) - 1
				for _, e := range l.order {
					s.Frames += e.book.sent
				}
				l.mu.Unlock()
			}
			for _, m := range n.mirrors {
				s.Frames += m.since().Delivered
			}
		})
	}
}

// writerRole is DIR CHANNELS HZ SIZE: a control loop that puts into all of them, c0
// and so on, at once. Lines are "stop" and "go".
func writerRole(args []string) error {
	var numbers [3]int
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.Atoi(args[1+i]); err != nil {
			return err
		}
	}
	var writers []*localach.Writer
	for i := range numbers[0] {
		ch, err := localach.Dir(args[0]).Open("c" + strconv.Itoa(i))
		if err != nil {
			return err
		}
		writers = append(writers, ch.Writer())
	}
	frame := make([]byte, numbers[2])
	var works atomic.Bool
	go func() {
		for beat := newBeat(time.Second / time.Duration(numbers[1])); ; beat.wait() {
			for _, w := range writers {
				if !works.Load() {
					break
				}
				if _, err := w.Put(frame); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		}
	}()
	return serve("ready", func(*spent) {}, func(line string) error { works.Store(line == "go"); return nil })
}

// beat is a clock that ticks exactly: a sleep until a time.
type beat struct{ next, period time.Duration }

func newBeat(period time.Duration) *beat { return &beat{monotonic(), period} }

func (t *beat) wait() {
	t.next = max(t.next+t.period, monotonic()-t.period)
	ts := unix.NsecToTimespec(int64(t.next))
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil) == syscall.EINTR {
	}
}

func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// counter counts packets.
type counter struct{ n atomic.Uint64 }

func (c *counter) add()            { c.n.Add(1) }
func (c *counter) report(s *spent) { s.Packets += c.n.Load() }
