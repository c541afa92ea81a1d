package bridge

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/trust"
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
	if err := trust.NewKey().Write(os.Getenv(keyFile)); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// keyFile is the variable that names the file with the network key of all children.
const keyFile = "BRIDGE_CHILD_KEY"

// overVar is the variable that names the transport of the children that are started
// from now on, if that is not QUIC.
const overVar = "BRIDGE_CHILD_OVER"

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
