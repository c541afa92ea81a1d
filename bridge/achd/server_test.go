package achd

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

var update = flag.Bool("update", false, "write the golden conversations anew")

// robot is a server and its channels.
type robot struct {
	t       *testing.T
	dir     localach.Dir
	server  *Server
	address string
	log     *await.Log
	command map[string]bool
	writers sync.Map                   // channels that have a writer
	claims  atomic.Int32               // number of attempts to become a writer
	claim   sync.Mutex                 // held while claims must wait
	source  atomic.Pointer[netip.Addr] // address from which achd receives all channels; nil means no channel
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// newRobot serves the channels that match "imu*" and "stop" to this host.
func newRobot(t *testing.T, address string) *robot {
	t.Helper()
	r := &robot{t: t, dir: localach.Dir(t.TempDir()), log: &await.Log{}, command: map[string]bool{"stop": true}}
	w, err := localach.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	r.source.Store(&netip.Addr{})
	r.server = New(Config{
		Source: func(string) netip.Addr { return *r.source.Load() },
		Dir:    r.dir, Log: slog.New(slog.NewTextHandler(r.log, nil)), Command: func(name string) bool { return r.command[name] },
		Claim: func(name string, _ localach.Tag) (func(), error) {
			r.claims.Add(1)
			r.claim.Lock()
			defer r.claim.Unlock()
			if _, taken := r.writers.LoadOrStore(name, true); taken {
				return nil, errors.New(name + " has a writer already")
			}
			return func() { r.writers.Delete(name) }, nil
		},
		NewData: func(c *localach.Channel, f func(uint64)) func() { return w.Watch(c, f).Close },
	})
	r.server.SetRules(Rules{From: loopback, Channels: []string{"imu*", "stop", "bad name"}, Accept: []string{"goal*", "stop"}})
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("listen %s: %v", address, err)
	}
	r.address = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = w.Run(ctx) })
	work.Go(func() {
		if err := r.server.Run(ctx, ln); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); work.Wait() })
	return r
}

// channel makes a channel and returns its writer.
func (r *robot) channel(name string, count, size int) *localach.Writer {
	r.t.Helper()
	ch, err := r.dir.Create(name, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: count, FrameSize: size}})
	if err != nil {
		r.t.Fatal(err)
	}
	w := ch.Writer()
	r.t.Cleanup(func() { w.Close(); ch.Close() })
	return w
}

// dial sends a request and reads the lines of the reply.
func (r *robot) dial(ask string) (net.Conn, *bufio.Reader, string) {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(await.Deadline())
	if _, err := io.WriteString(conn, ask); err != nil {
		r.t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	var text strings.Builder
	for {
		line, err := in.ReadString('\n')
		text.WriteString(line)
		if err != nil || line == ".\n" {
			return conn, in, text.String()
		}
	}
}

// frame reads one frame in its TCP encoding.
func frame(in io.Reader) ([]byte, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	if string(head[:8]) != magic {
		return nil, fmt.Errorf("head %q", head)
	}
	data := make([]byte, binary.LittleEndian.Uint64(head[8:]))
	_, err := io.ReadFull(in, data)
	return data, err
}

func pullOf(channel string, more ...string) string {
	return "channel-name: " + channel + "\ntransport: tcp\nget-last: 0\ndirection: push\n" + strings.Join(more, "\n") + ".\n"
}

// Each file of testdata is a conversation. ">" marks what the client sends, "<" what it receives.
func TestServerConversations(t *testing.T) {
	r := newRobot(t, "127.0.0.1:0")
	r.channel("imu", 100, 64)
	r.channel("stop", 16, 512)
	r.channel("secret", 16, 512)
	r.channel("goal", 16, 512)
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) < 10 {
		t.Fatalf("%d conversations", len(files))
	}
	port := regexp.MustCompile(`remote-port: [0-9]+`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		said, got := "", ""
		for line := range strings.Lines(string(text)) {
			if ask, ok := strings.CutPrefix(line, "> "); ok {
				ask = strings.NewReplacer(`\r`, "\r", `\t`, "\t", `\x`, strings.Repeat("x", 1100)).Replace(ask)
				said, got = said+ask, got+line
			}
		}
		conn, _, answer := r.dial(said)
		conn.Close()
		await.True(t, "the channel is free again", func() bool { _, taken := r.writers.Load("goal"); return !taken })
		for line := range strings.Lines(port.ReplaceAllString(answer, "remote-port: PORT")) {
			got += "< " + line
		}
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got != strings.ReplaceAll(string(text), "> remote-port: PORT", "") {
			t.Errorf("%s: got\n%s\nwant\n%s", file, got, text)
		}
	}
}

// With get-last 0 a client gets every frame that the ring still holds, once, however far the writer is ahead.
func TestPullGetsAllFramesInRing(t *testing.T) {
	const ring = 64
	r := newRobot(t, "[::1]:0")
	w := r.channel("imu", ring, 16)
	_, in, _ := r.dial(pullOf("imu"))
	random := rand.New(rand.NewPCG(1, 2))
	put, got, missed := uint64(0), 0, uint64(0)
	for frames := uint64(need.LongOr(100_000, 1000)); put < frames; {
		last := put // the client has all frames up to this one
		for range 1 + random.IntN(2*ring) {
			put++
			if _, err := w.Put(binary.LittleEndian.AppendUint64(nil, put)); err != nil {
				t.Fatal(err)
			}
		}
		for ; last < put; got++ {
			data, err := frame(in)
			if err != nil {
				t.Fatal(err)
			}
			n := binary.LittleEndian.Uint64(data)
			oldest := put - min(put, ring) + 1 // in the ring, since the burst is over
			if n <= last || n > max(last+1, oldest) {
				t.Fatalf("got frame %d behind %d, and the ring has %d to %d", n, last, oldest, put)
			}
			missed += n - last - 1
			last = n
		}
	}
	if got == 0 || missed == 0 {
		t.Errorf("got %d frames and %d overwritten, want some of both", got, missed)
	}
}

// With get-last 1 a slow client gets the newest frame at the time of sending, at most one frame in each period.
func TestPullOfNewestSkipsOlderFrames(t *testing.T) {
	const period = 50 * time.Millisecond
	for how, pause := range map[string]time.Duration{"get-last: 1\n": 0, "period-ns: 50000000\n": period} {
		r := newRobot(t, "127.0.0.1:0")
		w := r.channel("imu", 64, 16)
		_, in, _ := r.dial(pullOf("imu", how))
		begin := time.Now()
		for i := range byte(50) {
			_, _ = w.Put([]byte{i + 1})
		}
		for last, n := byte(0), 1; last != 50; n++ {
			data, err := frame(in)
			if err != nil || data[0] <= last {
				t.Fatalf("%s: got %v, %v behind frame %d", how, data, err, last)
			}
			if most := 2 + int(time.Since(begin)/period); pause != 0 && n > most {
				t.Fatalf("%s: got frame %d, number %d of %d at most by now", how, data[0], n, most)
			}
			last = data[0]
		}
	}
}

// A frame that is larger than the kernel's buffers arrives whole. The server reads the next frame only when the client
// has acknowledged the last one.
func TestAtMostOneFrameWaitsInKernel(t *testing.T) {
	r := newRobot(t, "127.0.0.1:0")
	const size = 8 << 20
	w := r.channel("imu", 4, size)
	_, in, _ := r.dial(pullOf("imu", "get-last: 1\n"))
	data := make([]byte, size)
	for i := range byte(5) {
		data[0] = i
		if _, err := w.Put(data); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // time in which a sender that queues would queue
	}
	got := []byte{}
	for len(got) == 0 || got[len(got)-1] != 4 {
		data, err := frame(in)
		if err != nil || len(data) != size {
			t.Fatalf("got %d bytes, %v", len(data), err)
		}
		got = append(got, data[0])
	}
	if len(got) > 3 { // the frame in transit, perhaps one that was read meanwhile, and the newest
		t.Errorf("got frames %v, want the first and the newest", got)
	}
}

func TestUDPPullReceivesBareFrames(t *testing.T) {
	r := newRobot(t, "127.0.0.1:0")
	w := r.channel("imu", 16, 64<<10)
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	conn, _, answer := r.dial(fmt.Sprintf("remote-port: %d\n", udp.LocalAddr().(*net.UDPAddr).Port) + strings.Replace(pullOf("imu"), "tcp", "udp", 1))
	var port int
	if _, err := fmt.Sscanf(answer, "remote-port: %d\nframe-count: 16\nframe-size: 65536\nstatus: 0", &port); err != nil {
		t.Fatalf("got %q: %v", answer, err)
	}
	_, _ = w.Put(make([]byte, maxDatagram+1)) // left out
	_, _ = w.Put([]byte("a frame"))
	_ = udp.SetReadDeadline(await.Deadline())
	buf := make([]byte, 100)
	n, from, err := udp.ReadFrom(buf)
	if err != nil || string(buf[:n]) != "a frame" || from.(*net.UDPAddr).Port != port {
		t.Fatalf("got %q from %v, %v, want a frame from port %d", buf[:n], from, err, port)
	}
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	await.True(t, "a byte ends it", func() bool { return len(r.server.Report().Clients) == 0 })
}

func TestHundredChannelsArePulledAtOnce(t *testing.T) {
	r := newRobot(t, "127.0.0.1:0")
	var readers []*bufio.Reader
	var writers []*localach.Writer
	for i := range 100 {
		name := fmt.Sprintf("imu%d", i)
		writers = append(writers, r.channel(name, 16, 16))
		_, in, _ := r.dial(pullOf(name))
		readers = append(readers, in)
	}
	for i, w := range writers {
		_, _ = w.Put([]byte{byte(i)})
	}
	for i, in := range readers {
		if data, err := frame(in); err != nil || data[0] != byte(i) {
			t.Errorf("channel %d: got %v, %v", i, data, err)
		}
	}
	if got := len(r.server.Report().Clients); got != 100 {
		t.Errorf("got %d clients, want 100", got)
	}
}

// A search finds only existing channels that the requesting host may use.
func TestSearchFindsOnlyServedChannels(t *testing.T) {
	r := newRobot(t, "127.0.0.1:0")
	for _, name := range []string{"imu", "goal", "stop", "secret"} {
		r.channel(name, 16, 16)
	}
	here, elsewhere := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.0.0.1")
	for name, want := range map[string]bool{"imu": true, "goal": true, "stop": false, "secret": false, "imu2": false} {
		if got := r.server.Serves(here, name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		if r.server.Serves(elsewhere, name) {
			t.Errorf("%s is served to an unknown host, want it refused", name)
		}
	}
}

// The server sends no channel back to the host from which achd receives it. Otherwise the frames would loop.
func TestPullOfOwnFramesIsRefused(t *testing.T) {
	t.Parallel()
	r := newRobot(t, "127.0.0.1:0")
	r.channel("imu", 16, 16)
	elsewhere, here := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("127.0.0.1")
	r.source.Store(&elsewhere)
	_, in, _ := r.dial(pullOf("imu"))
	r.source.Store(&here)
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("a client that is there: got %v, want the end", err)
	}
	if _, _, answer := r.dial(pullOf("imu")); !strings.Contains(answer, "15 # ACH_EACCES\nmessage: imu came from your host by achd") {
		t.Errorf("another: got %q", answer)
	}
}

// A pull ends about one second after its channel is no longer served, becomes a command channel, or is created again.
func TestPullEndsWhenChannelIsNoLongerServed(t *testing.T) {
	for name, change := range map[string]func(r *robot){
		"rules":   func(r *robot) { r.server.SetRules(Rules{From: loopback, Channels: []string{"other"}}) },
		"removed": func(r *robot) { _ = r.dir.Unlink("imu") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRobot(t, "127.0.0.1:0")
			r.channel("imu", 16, 16)
			_, in, _ := r.dial(pullOf("imu"))
			change(r)
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("got %v, want the end", err)
			}
		})
	}
}

func TestUnknownAndExcessClientsAreRefused(t *testing.T) {
	r := newRobot(t, "127.0.0.1:0")
	w := r.channel("imu", 16, 16)
	_, in, _ := r.dial(pullOf("imu"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var idle []net.Conn
	dials := need.LongOr(10_000, 600)
	for range dials {
		if conn, err := net.Dial("tcp", r.address); err == nil {
			idle = append(idle, conn)
		}
		if len(idle) == 400 {
			idle[0].Close()
			idle = idle[1:]
		}
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 16<<20 {
		t.Errorf("%d MiB more", grown>>20)
	}
	await.True(t, "most are refused", func() bool { return int(r.server.Report().Refused) > dials/2 })
	if got := r.server.Report().Waiting; got > maxPerHost {
		t.Errorf("got %d waiting, want at most %d", got, maxPerHost)
	}
	_, _ = w.Put([]byte("still"))
	if data, err := frame(in); err != nil || string(data) != "still" {
		t.Errorf("the client before: got %q, %v", data, err)
	}
	for _, conn := range idle {
		conn.Close()
	}
	r.server.SetRules(Rules{From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Channels: []string{"*"}})
	if _, _, answer := r.dial(pullOf("imu")); answer != "" {
		t.Errorf("unknown host: got %q, want a refusal", answer)
	}
	if n := strings.Count(r.log.String(), "\n"); n != 1 {
		t.Errorf("got %d lines in the log, want 1:\n%s", n, r.log.String())
	}
}

// The memory that a client has reserved is free for others once the client has left.
func TestClientMemoryIsReleased(t *testing.T) {
	const size = 1 << 20
	for direction, ask := range map[string]string{"pull": pullOf("imu"), "push": fmt.Sprintf(pushOf, "goal")} {
		t.Run(direction, func(t *testing.T) {
			r := newRobot(t, "127.0.0.1:0")
			w := r.channel("imu", 4, size)
			r.channel("goal", 4, size)
			conn, in, _ := r.dial(ask)
			if direction == "pull" {
				_, _ = w.Put(make([]byte, size))
				if _, err := frame(in); err != nil {
					t.Fatal(err)
				}
			} else if _, err := conn.Write(framed(make([]byte, size))); err != nil {
				t.Fatal(err)
			}
			await.True(t, "the frame", func() bool { return r.server.Report().Frames == 1 })
			if got := r.server.memory.Load(); got < size {
				t.Errorf("%d bytes are taken for a frame of %d bytes", got, size)
			}
			conn.Close()
			await.True(t, "the client has left", func() bool {
				report := r.server.Report()
				return len(report.Clients)+report.Waiting == 0
			})
			if got := r.server.memory.Load(); got != 0 {
				t.Errorf("%d bytes are taken without a client", got)
			}
		})
	}
}

// A client whose memory is refused has reserved none of it.
func TestRefusedTakeReservesNoMemory(t *testing.T) {
	s := New(Config{})
	if s.take(maxMemory + 1) {
		t.Errorf("take(%d) = true, want false", maxMemory+1)
	}
	if !s.take(maxMemory) {
		t.Errorf("take(%d) = false after a larger request was refused, want true", maxMemory)
	}
}

// fromAddr is a connection whose remote address is addr.
type fromAddr struct {
	net.Conn
	addr net.Addr
}

func (c fromAddr) RemoteAddr() net.Addr { return c.addr }
func (fromAddr) Close() error           { return nil }

func TestClientsAreLimitedPerHostAndInTotal(t *testing.T) {
	s := New(Config{})
	s.SetRules(Rules{From: loopback, Channels: []string{"imu"}})
	admit := func(host byte) (*client, error) {
		return s.admit(fromAddr{addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host), Port: 1}})
	}
	var last *client
	for host := range byte(maxClients / maxPerHost) {
		for range maxPerHost {
			c, err := admit(host + 1)
			if err != nil {
				t.Fatal(err)
			}
			last = c
		}
		if _, err := admit(host + 1); err != errTooManyClients {
			t.Errorf("client %d of host %d: got %v, want %v", maxPerHost+1, host+1, err, errTooManyClients)
		}
	}
	if _, err := admit(100); err != errTooManyClients {
		t.Errorf("client %d, of another host: got %v, want %v", maxClients+1, err, errTooManyClients)
	}
	s.leave(last)
	if _, err := admit(byte(maxClients / maxPerHost)); err != nil {
		t.Errorf("after a client of that host has left: got %v, want a place", err)
	}
}

// A connection that does not complete its request is closed in bounded time, even if bytes of a request arrive now and then.
func TestIncompleteRequestTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		var writer sync.WaitGroup
		defer writer.Wait()
		defer ours.Close()
		writer.Go(func() {
			defer theirs.Close()
			for range 100 {
				if _, err := theirs.Write([]byte("#")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		began := time.Now()
		_, err := (&client{conn: ours}).read()
		if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took != maxTimeAsks {
			t.Errorf("got %v after %v, want %v after %v", err, took, os.ErrDeadlineExceeded, maxTimeAsks)
		}
	})
}

// A client that never reads uses the memory of one frame and does not delay other clients.
func TestStalledClientDelaysNoOther(t *testing.T) {
	r := newRobot(t, "127.0.0.1:0")
	w := r.channel("imu", 4, 4<<20)
	deaf, _, _ := r.dial(pullOf("imu"))
	_ = deaf.(*net.TCPConn).SetReadBuffer(1)
	_, in, _ := r.dial(pullOf("imu"))
	data := make([]byte, 4<<20)
	for i := range byte(5) {
		data[0] = i
		_, _ = w.Put(data)
		if got, err := frame(in); err != nil || got[0] != i {
			t.Fatalf("frame %d: %v", i, err)
		}
	}
	if got := r.server.memory.Load(); got > 10<<20 {
		t.Errorf("got %d MiB of frames, want two", got>>20)
	}
}
