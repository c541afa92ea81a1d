package bridge

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/localach"
)

// listenAnywhere is an endpoint at a port of all interfaces.
func listenAnywhere(host string, number byte) (*transport.Endpoint, trust.NodeID, error) {
	id := trust.NodeID{0: 1, 15: number}
	copy(id[1:], host)
	key, err := trust.ReadKey(os.Getenv(keyFile))
	if err != nil {
		return nil, id, err
	}
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, id, err
	}
	c := transport.Config{Key: key, Node: id, Host: host}
	if os.Getenv(overVar) == overSCTP {
		c.SCTP = conn
		end, err := transport.Listen(nil, c)
		return end, id, err
	}
	end, err := transport.Listen(conn, c)
	return end, id, err
}

// listeningAt is an endpoint of listenAnywhere, seen from elsewhere.
func listeningAt(addr net.Addr) transport.Addrs {
	if os.Getenv(overVar) == overSCTP {
		return transport.Addrs{SCTP: addr}
	}
	return transport.Addrs{QUIC: addr}
}

// portOf is where an endpoint listens.
func portOf(end *transport.Endpoint) string {
	at := end.LocalAddrs()
	return strconv.Itoa(cmp.Or(at.QUIC, at.SCTP).(*net.UDPAddr).Port)
}

// nodesRole is HOST COUNT DIR [PEER]: as many nodes of their own directories, DIR0
// and so on, which dial PEER. Lines are "mirror X" and "unmirror X", for all of them,
// "free" to give back unused memory, "types 64" to have a type of 64 bytes for all channels and "types 0" for none,
// "look" to ask origins for the types of all mirrors, and "status".
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
			n.SetPeers([]Peer{{Addrs: []transport.Addrs{listeningAt(addr)}, Static: true}})
		}
		nodes = append(nodes, n)
	}
	return serve(hello, func(s *spent) { countAll(nodes, s) }, func(line string) error {
		verb, what, _ := strings.Cut(line, " ")
		switch verb {
		case "free":
			debug.FreeOSMemory()
			return nil
		case "types":
			return nodes[0].Apply(Config{Layouts: layoutsOf(what)})
		case "look":
			return lookAtTypes(nodes[0])
		case "status":
			nodes[0].Status()
			return nil
		}
		m, err := rule.ParseMirror(what, nil)
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
				for _, sub := range l.order {
					s.Frames += sub.book.Sent
				}
				l.mu.Unlock()
			}
			for _, m := range n.mirrors {
				s.Frames += m.Since().Delivered
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
