package bridge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/localach"
	"achbridge/testnet/await"
)

// TestMain lets the test binary be a node in its own process, which a benchmark starts.
func TestMain(m *testing.M) {
	if key, is := os.LookupEnv(childKey); is {
		if err := runChild(key, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, os.Args, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(await.Main(m))
}

// childKey is the environment variable that makes a process a child. Its value is the file of the
// network key.
const childKey = "BRIDGE_CHILD_KEY"

// child is a node in a separate process. The process answers every line of its input.
type child struct {
	b   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// play starts a node HOST with the channels in DIR. The node dials PEER if given. play returns the
// node's port.
func play(b testing.TB, key string, args ...string) (c *child, port string) {
	b.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), childKey+"="+key), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	c = &child{b: b, cmd: cmd, in: in, out: bufio.NewScanner(out)}
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

// ask sends a line to the child and returns the answer.
func (c *child) ask(line string) string {
	c.b.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.b.Fatal(err)
	}
	return c.answer()
}

// end ends the child by closing its input. Further calls do nothing.
func (c *child) end() {
	c.in.Close()
	c.cmd.Wait()
}

// runChild runs a node until its input ends. Input lines are "mirror X", "unmirror X", "mux X" and
// "frames", which it answers with the number of frames in its mirrors.
func runChild(keyFile string, args []string) error {
	key, err := trust.ReadKey(keyFile)
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	dir, id := localach.Dir(args[1]), trust.NodeID{1}
	copy(id[1:], args[0])
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return err
	}
	end, err := transport.Listen(conn, transport.Config{Key: key, Node: id, Host: args[0]})
	if err != nil {
		return err
	}
	watcher, err := localach.NewWatcher()
	if err != nil {
		return err
	}
	n, err := New(Config{Host: args[0], Node: id, Dir: dir, Source: ShmSource(dir, watcher), Endpoint: end})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() { watcher.Run(ctx) })
	work.Go(func() { n.Run(ctx); end.Close() })
	if len(args) > 2 {
		addr, err := net.ResolveUDPAddr("udp", args[2])
		if err != nil {
			return err
		}
		n.SetPeers([]Peer{{Addrs: []transport.Addrs{{QUIC: addr}}, Static: true}})
	}
	fmt.Println(conn.LocalAddr().(*net.UDPAddr).Port)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := n.obey(lines.Text())
		if err != nil {
			return err
		}
		fmt.Println(answer)
	}
	return nil
}

func (n *Node) obey(line string) (answer string, err error) {
	command, what, _ := strings.Cut(line, " ")
	if command == "frames" {
		frames := uint64(0)
		for _, m := range n.StatusNow().Mirrors {
			frames += m.Delivered
		}
		return strconv.FormatUint(frames, 10), nil
	}
	if command == "mux" {
		m, err := rule.ParseMux(what, nil)
		if err != nil {
			return "", err
		}
		return "ok", n.Mux(m)
	}
	m, err := rule.ParseMirror(what, nil)
	if err != nil {
		return "", err
	}
	if command == "mirror" {
		return "ok", n.Mirror(m)
	}
	return "ok", n.Unmirror(m, Keep)
}
