package achd

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/localach/damage"
	"achbridge/testnet/await"
)

const pushOf = "channel-name: %s\ntransport: tcp\nget-last: 0\ndirection: pull\n.\n"

// framed returns a frame in its TCP encoding.
func framed(data []byte) []byte {
	return append(binary.LittleEndian.AppendUint64([]byte(magic), uint64(len(data))), data...)
}

// goal makes a channel that achd's clients may write, and returns its reader.
func (r *robot) goal() *localach.Reader {
	r.t.Helper()
	r.channel("goal", 64, 64)
	ch, err := r.dir.Open("goal")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { ch.Close() })
	return ch.Reader()
}

func TestUDPPushIgnoresDatagramsOfOtherClients(t *testing.T) {
	r := newRobot(t, "127.0.0.1:0")
	reader := r.goal()
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	ask := fmt.Sprintf("remote-port: %d\n", udp.LocalAddr().(*net.UDPAddr).Port) + strings.Replace(fmt.Sprintf(pushOf, "goal"), "tcp", "udp", 1)
	_, _, answer := r.dial(ask)
	var port int
	if _, err := fmt.Sscanf(answer, "remote-port: %d\n", &port); err != nil {
		t.Fatalf("got %q", answer)
	}
	to := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
	unknownPeer, err := net.DialUDP("udp4", nil, to)
	if err != nil {
		t.Fatal(err)
	}
	defer unknownPeer.Close()
	_, _ = unknownPeer.Write([]byte("forged"))
	for _, text := range []string{"", strings.Repeat("x", 300)} { // larger than nominal: achd would cut it
		_, _ = udp.WriteTo([]byte(text), to)
	}
	buf := make([]byte, 4096)
	if n, err := reader.NextOldest(buf, await.Limit); err != nil || n != 300 {
		t.Errorf("got %q, %v, want the frame of 300 bytes", buf[:n], err)
	}
}

func TestSecondWriterIsRefused(t *testing.T) {
	t.Parallel()
	r := newRobot(t, "127.0.0.1:0")
	r.goal()
	first, _, _ := r.dial(fmt.Sprintf(pushOf, "goal"))
	if _, _, answer := r.dial(fmt.Sprintf(pushOf, "goal")); !strings.HasPrefix(answer, "status: 5 # ACH_EAGAIN\n") {
		t.Errorf("a second writer got %q", answer)
	}
	rules := Rules{From: loopback, Channels: []string{"goal"}, Accept: []string{"goal"}}
	r.server.SetRules(rules)
	await.True(t, "the first is at work", func() bool { return len(r.server.Report().Clients) == 1 })
	if _, _, answer := r.dial(pullOf("goal")); !strings.HasPrefix(answer, "status: 5 # ACH_EAGAIN\n") {
		t.Errorf("its own host, which would hear its own frames, got %q", answer)
	}
	rules.Accept = nil
	r.server.SetRules(rules)
	if _, err := first.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("when it is not accepted any more: got %v, want the end", err)
	}
}

// A host whose push is accepted and has not begun already counts as the writer. Otherwise its pull could return the
// frames of its own push.
func TestHostCannotPullChannelItIsAboutToPush(t *testing.T) {
	r := newRobot(t, "127.0.0.1:0")
	r.goal()
	r.server.SetRules(Rules{From: loopback, Channels: []string{"goal"}, Accept: []string{"goal"}})
	r.claim.Lock()
	defer r.claim.Unlock()
	writer, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	fmt.Fprintf(writer, pushOf, "goal")
	await.True(t, "the writer is about to begin", func() bool { return r.claims.Load() == 1 })
	if _, _, answer := r.dial(pullOf("goal")); !strings.HasPrefix(answer, "status: 5 # ACH_EAGAIN\n") {
		t.Errorf("got %q", answer)
	}
}

// A host may not pull the channel that it pushes, but other hosts may.
func TestHostPullsChannelPushedByAnother(t *testing.T) {
	s := New(Config{})
	connect := func(addr string, put bool) *client {
		c := &client{addr: netip.MustParseAddrPort(addr), clientRequest: request{channel: "goal", put: put}}
		s.clients[c] = struct{}{}
		return c
	}
	for _, c := range []struct {
		addr string
		put  bool
		want bool
	}{
		{"10.0.0.1:1", true, true},
		{"10.0.0.1:2", false, false},
		{"10.0.0.2:1", false, true},
		{"10.0.0.2:2", false, true},
	} {
		if got := s.choose(connect(c.addr, c.put)); got != c.want {
			t.Errorf("choose(%s, put %v) = %v, want %v", c.addr, c.put, got, c.want)
		}
	}
}

// If the tag still named a frame of the former origin, a new mirror of that origin would not request that frame,
// although the client's frames have replaced it.
func TestPushIntoAFormerMirrorChangesItsTag(t *testing.T) {
	r := newRobot(t, "127.0.0.1:0")
	tag := localach.Tag{Node: [16]byte{1}, Channel: 2, Epoch: 3}
	ch, err := r.dir.Create("goal", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: 64}, Tag: tag})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if _, _, answer := r.dial(fmt.Sprintf(pushOf, "goal")); !strings.Contains(answer, "ACH_OK") {
		t.Fatalf("got %q", answer)
	}
	if got, want := ch.OwnTag(), (localach.Tag{Node: tag.Node, Channel: foreign}); got != want {
		t.Errorf("got the tag %+v, want %+v", got, want)
	}
}

// A stopped program may hold the channel's lock when the server stops accepting the push.
func TestUnacceptedPushEndsWhileLockIsHeld(t *testing.T) {
	t.Parallel()
	r := newRobot(t, "127.0.0.1:0")
	r.goal()
	conn, in, _ := r.dial(fmt.Sprintf(pushOf, "goal"))
	damage.TakeLock(t, r.dir, "goal")
	if _, err := conn.Write(framed([]byte("frame"))); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // until it waits for the lock
	r.server.SetRules(Rules{From: loopback})
	_ = conn.SetReadDeadline(await.Deadline())
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("got %v, want the end", err)
	}
	await.True(t, "the channel is free again", func() bool { _, taken := r.writers.Load("goal"); return !taken })
}

// Invalid bytes end the connection. A declared size uses no memory.
func TestInvalidPushEndsConnection(t *testing.T) {
	for name, text := range map[string]string{
		"no magic":         "achpype\x00" + strings.Repeat("\x00", 8),
		"high bytes":       magic + "\x04\x00\x00\x00\x01\x00\x00\x00abcd",
		"size 0":           magic + strings.Repeat("\x00", 8),
		"larger than ring": magic + "\x01\x10\x00\x00\x00\x00\x00\x00",
	} {
		r := newRobot(t, "127.0.0.1:0")
		reader := r.goal()
		conn, in, _ := r.dial(fmt.Sprintf(pushOf, "goal"))
		_, _ = io.WriteString(conn, text)
		if _, err := in.ReadByte(); err == nil || os.IsTimeout(err) {
			t.Errorf("%s: got %v, want the end", name, err)
		}
		if n, err := reader.NextOldest(make([]byte, 64), 0); err == nil {
			t.Errorf("%s: a frame of %d bytes was put", name, n)
		}
	}
	r := newRobot(t, "127.0.0.1:0")
	r.channel("goal", 16, 4<<20)
	conn, _, _ := r.dial(fmt.Sprintf(pushOf, "goal"))
	_, _ = conn.Write(append(binary.LittleEndian.AppendUint64([]byte(magic), 48<<20), make([]byte, 100)...))
	await.True(t, "memory is taken for what came", func() bool { return r.server.memory.Load() == roomAtFirst })
}

// Our client pushes all frames put after its connection to our server.
func TestClientPushesToServer(t *testing.T) {
	for _, udp := range []bool{false, true} {
		t.Run(fmt.Sprintf("UDP=%v", udp), func(t *testing.T) {
			t.Parallel()
			clientPushes(t, udp)
		})
	}
}

func clientPushes(t *testing.T, udp bool) {
	r := newRobot(t, "127.0.0.1:0")
	reader := r.goal()
	w := r.channel("imu", 16, 64)
	_, _ = w.Put([]byte("before"))
	ch, err := r.dir.Open("imu")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	host, port, _ := net.SplitHostPort(r.address)
	begun, done := make(chan bool, 1), make(chan error, 1)
	var denied atomic.Pointer[error]
	go func() {
		done <- Remote{Host: host, Port: port, Channel: "goal", UDP: udp}.Push(ctx, Outgoing{
			Channel: ch, NewData: r.server.cfg.NewData, Begun: func() { begun <- true },
			May: func() error {
				if why := denied.Load(); why != nil {
					return *why
				}
				return nil
			},
		})
	}()
	select {
	case <-begun:
	case err := <-done:
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	for i := range uint64(100) {
		if _, err := w.Put(binary.LittleEndian.AppendUint64(nil, i)); err != nil {
			t.Fatal(err)
		}
		if n, err := reader.NextOldest(buf, await.Limit); err != nil || n != 8 || binary.LittleEndian.Uint64(buf) != i {
			t.Fatalf("frame %d: got %q, %v", i, buf[:n], err)
		}
	}
	why := errors.New("not any more")
	denied.Store(&why)
	if err := <-done; err != why {
		t.Errorf("got %v, want %v", err, why)
	}
	cancel()
	ch.Close()
}

// FuzzPush sends arbitrary bytes after a client's request. The server must put only whole frames.
func FuzzPush(f *testing.F) {
	f.Add([]byte("achpipe\x00\x04\x00\x00\x00\x00\x00\x00\x00abcd"))
	f.Add([]byte("achpipe\x00\x04\x00\x00\x00\x00\x00\x00\x00abc"))
	f.Add([]byte("achpipe\x00\x04\x00\x00\x00\x01\x00\x00\x00abcd"))
	dir := localach.Dir(f.TempDir())
	ch, err := dir.Create("goal", localach.CreateConfig{})
	if err != nil {
		f.Fatal(err)
	}
	s := New(Config{Command: func(string) bool { return false }})
	s.SetRules(Rules{From: loopback, Accept: []string{"goal"}})
	f.Fuzz(func(t *testing.T, text []byte) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		before := ch.LastSeq()
		c := &client{s: s, conn: ours, addr: netip.MustParseAddrPort("127.0.0.1:1"), clientRequest: request{channel: "goal", put: true}}
		p := &push{c: c, ch: ch, w: ch.Writer()}
		defer p.w.Close()
		_ = p.stream(t.Context(), bufio.NewReaderSize(strings.NewReader(string(text)), maxLine))
		s.give(p.took)
		whole := uint64(0)
		for rest := text; len(rest) >= headSize && string(rest[:8]) == magic; whole++ {
			n := binary.LittleEndian.Uint64(rest[8:16])
			if n == 0 || n > 16*512 || n > uint64(len(rest)-headSize) {
				break
			}
			rest = rest[headSize+n:]
		}
		if got := ch.LastSeq() - before; got != whole {
			t.Errorf("%q: put %d frames, want %d", text, got, whole)
		}
	})
}
