package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/localach"
	"achbridge/testnet"
	"achbridge/testnet/await"
)

// world is a robot's network in virtual time. Its hosts have their own channel directories in real
// shared memory and are joined by emulated links.
type world struct {
	t     *testing.T
	net   *testnet.Network
	key   trust.Key
	hosts int
	names []string
	one   *host // the host with a node, in worlds with only one
}

// measured skips a test with -short if the test only measures. Other tests run the same code, so
// that for example the race detector would find nothing more.
func measured(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("measures only: run without -short")
	}
}

// inWorld runs f in virtual time, in parallel with other worlds.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	inLoneWorld(t, f)
}

// inLoneWorld is like inWorld, for tests that must not run in parallel, for example because they
// measure the memory of the process.
func inLoneWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&world{t: t, net: testnet.NewNetwork(1), key: trust.NewKey()})
	})
}

// host is one host of the world. Its node can be stopped and started.
type host struct {
	w      *world
	name   string
	over   string // transport of the node; "" means quic, auto means both and is not possible with runAt
	dir    localach.Dir
	net    *testnet.Host
	number int
	// filtered is a port; packets to it from the sockets of run are lost. nil means no such port.
	filtered *atomic.Int32
	socket   func(net.PacketConn) net.PacketConn // wraps the sockets of run; nil means no wrapping
	source   Source                              // nil means a pollSource
	id       trust.NodeID
	machine  Machine
	key      trust.Key // key of the host; zero means the world's
	cfg      Config
	dials    []*host
	node     *Node
	stop     func()
	log      *await.Log
	puts     *putSource // notified by channel.put
	views    map[string]*view
	slept    atomic.Int64  // total time in suspend, ns
	mono     *monoClock    // clock of the host; nil means that of the world
	lingers  time.Duration // delay between the end of the node and that of its sockets
}

const port = 8076

// host adds a host. Its name on the emulated network is unique, so that two hosts may use the same
// host name.
func (w *world) host(name string, link testnet.Params) *host {
	w.t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "bridge-test-")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { os.RemoveAll(dir) })
	h := &host{w: w, name: name, dir: localach.Dir(dir), net: w.net.Host(strings.Repeat(name, 1+w.named(name)), link), number: w.hosts, log: &await.Log{}, views: map[string]*view{}, puts: &putSource{dir: localach.Dir(dir)}}
	w.t.Cleanup(func() {
		for name := range h.views {
			h.closeView(name)
		}
	})
	w.hosts++
	copy(h.id[:], name)
	h.id[15] = byte(h.number + 1)
	h.machine = Machine{Hardware: h.id, Boot: h.id}
	return h
}

// named adds name to the names and counts the earlier hosts with that name.
func (w *world) named(name string) int {
	w.names = append(w.names, name)
	return strings.Count(strings.Join(w.names, " ")+" ", name+" ") - 1
}

// run starts the host's node, with peers to dial.
func (h *host) run(cfg Config, peers ...*host) *host {
	h.w.t.Helper()
	quic, sctp := h.sockets()
	log := slog.New(slog.NewTextHandler(h.log, nil)).With("host", h.name)
	key := h.w.key
	if h.key.Network() != "" {
		key = h.key
	}
	end, err := transport.Listen(quic, transport.Config{Key: key, Node: h.id, Host: h.name, Log: log, SCTP: sctp, ResetSecret: sha256.Sum256(h.id[:])})
	if err != nil {
		h.w.t.Fatal(err)
	}
	h.cfg, h.dials = cfg, peers
	cfg.Machine = h.machine
	cfg.testing.suspended = func() time.Duration { return time.Duration(h.slept.Load()) }
	if h.mono != nil {
		cfg.testing.suspended, cfg.testing.monotonic = h.mono.suspended, h.mono.now
	}
	cfg.Host, cfg.Node, cfg.Dir, cfg.Source, cfg.Endpoint, cfg.Log = h.name, h.id, h.dir, h.source, end, log
	if h.source == nil {
		cfg.Source = pollSource{h.puts}
	}
	h.node, err = New(cfg)
	if err != nil {
		h.w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { h.node.Run(ctx) })
	h.stop = sync.OnceFunc(func() {
		cancel()
		run.Wait()
		time.Sleep(h.lingers)
		end.Close()
	})
	h.w.t.Cleanup(h.stop)
	h.node.SetPeers(asPeers(peers))
	return h
}

func asPeers(hosts []*host) []Peer {
	var peers []Peer
	for _, p := range hosts {
		peers = append(peers, Peer{Host: p.name, Node: p.id.String(), Addrs: []transport.Addrs{{QUIC: p.addr()}}, Static: true})
	}
	return peers
}

func (h *host) addr() net.Addr {
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(testnet.HostAddr4(h.number), port))
}

// channel makes a channel on the host.
func (h *host) channel(name string, count, size int) *channel {
	h.w.t.Helper()
	ch, err := h.dir.Create(name, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: count, FrameSize: size}})
	if err != nil {
		h.w.t.Fatal(err)
	}
	c := &channel{t: h.w.t, ch: ch, w: ch.Writer(), noticed: h.puts.noticed}
	h.w.t.Cleanup(c.close)
	return c
}

// channel writes numbered frames.
type channel struct {
	t       *testing.T
	ch      *localach.Channel
	w       *localach.Writer
	noticed func(ch *localach.Channel) // called after each put; nil means no call
	closed  bool
}

func (c *channel) close() {
	if !c.closed {
		c.closed = true
		c.w.Close()
		c.ch.Close()
	}
}

// put writes a frame of size bytes: its number, the time, and a pattern.
func (c *channel) put(number uint64, size int) {
	c.t.Helper()
	if _, err := c.w.Put(frame(number, size)); err != nil {
		c.t.Fatal(err)
	}
	if c.noticed != nil {
		c.noticed(c.ch)
	}
}

func frame(number uint64, size int) []byte {
	b := bytes.Repeat([]byte{byte(number)}, size)
	binary.LittleEndian.PutUint64(b, number)
	binary.LittleEndian.PutUint64(b[8:], uint64(time.Now().UnixNano()))
	return b
}

// view is an open channel of a host, kept between two reads.
type view struct {
	ch      *localach.Channel
	r       *localach.Reader
	file    uint64 // inode of the file
	buf     []byte
	frame   []byte // newest frame, in buf
	checked uint64 // channel's number of the last frame whose pattern was checked
}

// newest returns the number and the age of the newest frame of a host's channel. Both are 0
// without a frame.
func (h *host) newest(name string) (number uint64, age time.Duration) {
	h.w.t.Helper()
	v, err := h.see(name)
	if errors.Is(err, localach.ErrCorrupt) {
		v, err = h.see(name) // it was replaced while it was open
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, 0
	}
	if err != nil {
		h.w.t.Fatal(err)
	}
	b := v.frame
	number = binary.LittleEndian.Uint64(b)
	if v.checked != v.r.Seq() {
		v.checked = v.r.Seq()
		if want := bytes.Repeat([]byte{byte(number)}, len(b)-16); !bytes.Equal(b[16:], want) {
			h.w.t.Fatalf("%s: frame %d of %d bytes is damaged", name, number, len(b))
		}
	}
	return number, time.Duration(time.Now().UnixNano() - int64(binary.LittleEndian.Uint64(b[8:])))
}

// see reads the newest frame of a channel of the host. It opens each file of the channel only
// once, since opening costs much more than reading.
func (h *host) see(name string) (*view, error) {
	var file unix.Stat_t
	err := unix.Stat(h.dir.Path(name), &file)
	v := h.views[name]
	if v != nil && (err != nil || v.file != file.Ino) {
		h.closeView(name)
		v = nil
	}
	if err != nil {
		return nil, err
	}
	if v == nil {
		ch, err := h.dir.Open(name)
		if err != nil {
			return nil, err
		}
		g := ch.Geometry()
		v = &view{ch: ch, r: ch.Reader(), file: file.Ino, buf: make([]byte, g.FrameCount*g.FrameSize)}
		h.views[name] = v
	}
	if v.r.Seq() != 0 && v.ch.LastSeq() == v.r.Seq() {
		return v, nil
	}
	n, err := v.r.Last(v.buf)
	if err != nil {
		h.closeView(name)
		return nil, err
	}
	v.frame = v.buf[:n]
	return v, nil
}

func (h *host) closeView(name string) {
	h.views[name].ch.Close()
	delete(h.views, name)
}

// within waits until ok returns true, and fails if that takes longer than limit. It calls ok every
// millisecond, and less often the longer it has waited.
func (w *world) within(limit time.Duration, what string, ok func() bool) time.Duration {
	w.t.Helper()
	begin := time.Now()
	for !ok() {
		if time.Since(begin) > limit {
			w.t.Fatalf("%s: not within %v", what, limit)
		}
		time.Sleep(max(time.Millisecond, time.Since(begin)/256))
	}
	return time.Since(begin)
}

// follows waits until frame number is the mirror's newest.
func (h *host) follows(name string, number uint64, limit time.Duration) time.Duration {
	h.w.t.Helper()
	return h.w.within(limit, h.name+"'s "+name, func() bool { n, _ := h.newest(name); return n == number })
}

func (h *host) mirror(name string) status.Mirror {
	h.w.t.Helper()
	for _, m := range h.node.Status().Mirrors {
		if m.Name == name {
			return m
		}
	}
	return status.Mirror{}
}

// pollSource is a Source in virtual time. With timers it polls for channels, and for frames that
// were not put by channel.put.
type pollSource struct{ *putSource }

func (s pollSource) Changes(ctx context.Context, f func(localach.Event)) error {
	known := map[string]uint64{}
	settled := int64(-1) // time since which the directory has not changed
	for ; ctx.Err() == nil; pause(ctx, 10*time.Millisecond) {
		changed := s.changed()
		if changed == settled {
			continue
		}
		if settled = -1; changed < stampNow() {
			settled = changed
		}
		list, err := s.dir.List()
		if err != nil {
			return err
		}
		now := map[string]uint64{}
		for _, c := range list {
			now[c.Name] = c.Inode
			switch inode, ok := known[c.Name]; {
			case !ok:
				f(localach.Event{Kind: localach.Appeared, Name: c.Name})
			case inode != c.Inode:
				f(localach.Event{Kind: localach.Replaced, Name: c.Name})
			}
		}
		for name := range known {
			if _, ok := now[name]; !ok {
				f(localach.Event{Kind: localach.Vanished, Name: name})
			}
		}
		known = now
	}
	return nil
}

// changed returns when a name in the directory was last added or removed, in ns of the clock that
// stamps files.
func (s pollSource) changed() int64 {
	var st unix.Stat_t
	if unix.Stat(string(s.dir), &st) != nil {
		return 0 // List has the error
	}
	return st.Mtim.Nano()
}

// stampNow returns the stamp that a change would get now. The clock is the machine's even in
// virtual time, and advances in steps of milliseconds. Further changes may get the same stamp
// within one step.
func stampNow() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) // always exists on Linux
	return now.Nano()
}

func (s pollSource) NewData(ch *localach.Channel, f func(uint64)) func() {
	var mu sync.Mutex
	last := ch.LastSeq()
	poll := func() {
		mu.Lock()
		defer mu.Unlock()
		if seq := ch.LastSeq(); seq != last {
			last = seq
			f(seq)
		}
	}
	stop := s.putSource.NewData(ch, func(uint64) { poll() })
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for ; ctx.Err() == nil; pause(ctx, 2*time.Millisecond) {
			poll()
		}
	}()
	return func() { stop(); cancel() }
}
