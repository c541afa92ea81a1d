package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// contract is what every transport must do. The scenarios use nothing but the
// exported methods.
var contract = []struct {
	name string
	run  scenario
	cut  bool // needs a network that can be cut
}{
	{"BothEndsKnowEachOther", bothEndsKnowEachOther, false},
	{"WrongKeyIsRefusedAndLoggedOnBothSides", wrongKeyIsRefused, false},
	{"OwnNodeIsRefused", ownNodeIsRefused, false},
	{"ControlCarriesAMebibyteEachWay", controlCarriesAMebibyte, false},
	{"DatagramsUpToTheLimitArrive", datagramsUpToTheLimit, false},
	{"BurstArrivesWhole", burstArrivesWhole, false},
	{"FloodDoesNotStopTheSession", floodDoesNotStop, false},
	{"VanishedPeerIsNoticed", vanishedPeerIsNoticed, true},
	{"SilentAddressFailsTheDial", silentAddress, true},
	{"DialEndsWithItsContext", dialEndsWithContext, true},
	{"QuietSessionStaysAlive", quietSessionStays, false},
	{"DiallerClosesWithReason", diallerCloses, false},
	{"ListenerClosesWithReason", listenerCloses, false},
	{"RestartedPeerIsNoticed", restartedPeerIsNoticed, false},
	{"EndpointCloseEndsEverything", endpointCloseEnds, false},
	{"BrokenSocketIsReported", brokenSocketIsReported, false},
	{"NodesDialEachOtherAtOnce", nodesDialEachOther, false},
}

func TestQUICKeepsTheContract(t *testing.T) {
	for _, c := range contract {
		t.Run(c.name, inBubble(Listen, c.run))
	}
}

func TestQUICKeepsTheContractOnLoopback(t *testing.T) {
	before := openDescriptors(t)
	for _, c := range contract {
		if !c.cut {
			t.Run(c.name, onLoopback(Listen, c.run))
		}
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("open descriptors: got %d, want %d as before", after, before)
	}
}

// openDescriptors counts them, after the runtime's poller has its own.
func openDescriptors(t *testing.T) int {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

func bothEndsKnowEachOther(t *testing.T, l *lab) {
	robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "Küche pc")
	robot, pc := l.join(t, robotEnd, pcEnd)
	if got, want := robot.Peer(), (Peer{Node: nodeOf("Küche pc"), Host: "Küche pc"}); got != want {
		t.Errorf("robot's peer: got %v, want %v", got, want)
	}
	if got, want := pc.Peer(), (Peer{Node: nodeOf("robot"), Host: "robot"}); got != want {
		t.Errorf("pc's peer: got %v, want %v", got, want)
	}
	if robot.Dialled() || !pc.Dialled() {
		t.Errorf("dialled: got robot %t, pc %t, want false, true", robot.Dialled(), pc.Dialled())
	}
	if got, want := pc.RemoteAddr().String(), robotEnd.LocalAddr().String(); got != want {
		t.Errorf("pc's remote address: got %s, want %s", got, want)
	}
	if got, want := robot.RemoteAddr().String(), pcEnd.LocalAddr().String(); got != want {
		t.Errorf("robot's remote address: got %s, want %s", got, want)
	}
	for _, s := range []*Session{robot, pc} {
		if s.Err() != nil || s.Window() < 10_000 || s.RTT() <= 0 {
			t.Errorf("fresh session: err %v, window %d, round trip %v", s.Err(), s.Window(), s.RTT())
		}
	}
}

func wrongKeyIsRefused(t *testing.T, l *lab) {
	ours := l.node(t, "robot")
	theirs := l.start(t, Config{Key: l.keys[1], Node: nodeOf("spy"), Host: "spy"})
	for range 3 { // within one second: one line
		s, err := theirs.Dial(t.Context(), ours.LocalAddr())
		if s != nil || !errors.Is(err, ErrWrongKey) {
			t.Fatalf("dial with another key: got %v, %v, want ErrWrongKey", s, err)
		}
	}
	message := ErrWrongKey.Error()
	until(t, "logged by the listener", func() bool { return len(l.logs[ours].lines(message)) > 0 })
	for _, side := range []struct {
		end  *Endpoint
		want []string
	}{
		{ours, []string{"peer=" + theirs.LocalAddr().String(), "network=" + l.keys[0].Network(), "peer_network=" + l.keys[1].Network()}},
		{theirs, []string{"peer=" + ours.LocalAddr().String(), "network=" + l.keys[1].Network(), "peer_network=" + l.keys[0].Network(), "host=robot"}},
	} {
		lines := l.logs[side.end].lines("")
		if len(lines) != 1 || !strings.Contains(lines[0], message) {
			t.Errorf("log: got %q, want one line %q", lines, message)
			continue
		}
		for _, want := range side.want {
			if !strings.Contains(lines[0], want) {
				t.Errorf("log line %q: want %q in it", lines[0], want)
			}
		}
	}
	nobodyArrives(t, ours)
}

func ownNodeIsRefused(t *testing.T, l *lab) {
	e := l.node(t, "robot")
	if _, err := e.Dial(t.Context(), e.LocalAddr()); !errors.Is(err, ErrSelf) {
		t.Errorf("dialling ourselves: got %v, want ErrSelf", err)
	}
	copied := l.start(t, Config{Key: l.keys[0], Node: nodeOf("robot"), Host: "copy"})
	if _, err := copied.Dial(t.Context(), e.LocalAddr()); !errors.Is(err, ErrSelf) {
		t.Errorf("dialling a copy of our state: got %v, want ErrSelf", err)
	}
	nobodyArrives(t, e)
	if lines := l.logs[e].lines(""); len(lines) != 0 {
		t.Errorf("log: got %q, want nothing", lines)
	}
}

// nobodyArrives checks that Accept has nobody to hand out.
func nobodyArrives(t *testing.T, e *Endpoint) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if s, err := e.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("accept: got %v, %v, want nobody", s, err)
	}
}

func controlCarriesAMebibyte(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	message := bytes.Repeat([]byte("achbridge catalog "), (1<<20)/18+1)[:1<<20]
	for _, dir := range [][2]*Session{{robot, pc}, {pc, robot}} {
		sent := make(chan error, 1)
		go func() {
			_, err := dir[0].Control().Write(message)
			sent <- err
		}()
		got := make([]byte, len(message))
		if _, err := io.ReadFull(dir[1].Control(), got); err != nil {
			t.Fatalf("read: %v", err)
		}
		if err := <-sent; err != nil {
			t.Fatalf("write: %v", err)
		}
		if !bytes.Equal(got, message) {
			t.Error("control message arrived changed")
		}
	}
}

func datagramsUpToTheLimit(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	limit := pc.MaxDatagram()
	if limit < 1163 {
		t.Fatalf("limit: got %d bytes, want 1163 or more", limit)
	}
	for _, size := range []int{0, 1, 1163, limit} {
		sent := bytes.Repeat([]byte{byte(size)}, size)
		if err := pc.SendDatagram(sent); err != nil {
			t.Fatalf("send %d bytes: %v", size, err)
		}
		got, err := receive(t, robot)
		if err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("receive: got %d bytes, %v, want %d", len(got), err, size)
		}
	}
	for _, size := range []int{limit + 1, 64 << 10} {
		if err := pc.SendDatagram(make([]byte, size)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("send %d bytes: got %v, want ErrTooLarge", size, err)
		}
	}
}

func receive(t *testing.T, s *Session) ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return s.ReceiveDatagram(ctx)
}

func burstArrivesWhole(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	const count, size = 100, 1000
	sent := make(chan error, 1)
	go func() {
		b := make([]byte, size)
		for i := range count {
			binary.BigEndian.PutUint32(b, uint32(i))
			if err := robot.SendDatagram(b); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	seen := make(map[uint32]bool)
	for len(seen) < count {
		b, err := receive(t, pc)
		if err != nil || len(b) != size {
			t.Fatalf("receive after %d: got %d bytes, %v", len(seen), len(b), err)
		}
		seen[binary.BigEndian.Uint32(b)] = true
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// floodDoesNotStop sends far more than the reader takes: datagrams are lost, the
// control stream and the session live on.
func floodDoesNotStop(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	for range 2000 {
		if err := pc.SendDatagram(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pc.Control().Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 10)
	if _, err := io.ReadFull(robot.Control(), got); err != nil || string(got) != "still here" {
		t.Errorf("control: got %q, %v", got, err)
	}
	if _, err := receive(t, robot); err != nil {
		t.Errorf("datagram: %v", err)
	}
}

func vanishedPeerIsNoticed(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	l.cut()
	start := time.Now()
	for _, s := range []*Session{robot, pc} {
		if err := waitDone(t, s); !errors.Is(err, ErrSilent) {
			t.Errorf("err: got %v, want ErrSilent", err)
		}
	}
	if took := time.Since(start); took > defaultIdleTimeout+100*time.Millisecond {
		t.Errorf("noticed after %v, want %v", took, defaultIdleTimeout)
	}
	if err := pc.SendDatagram([]byte("x")); !errors.Is(err, ErrSilent) {
		t.Errorf("send: got %v, want ErrSilent", err)
	}
	if _, err := pc.ReceiveDatagram(t.Context()); !errors.Is(err, ErrSilent) {
		t.Errorf("receive: got %v, want ErrSilent", err)
	}
}

func silentAddress(t *testing.T, l *lab) {
	robot, pc := l.node(t, "robot"), l.node(t, "pc")
	l.cut()
	start := time.Now()
	_, err := pc.Dial(t.Context(), robot.LocalAddr())
	if took := time.Since(start); !errors.Is(err, ErrSilent) || took > handshakeTimeout+time.Second {
		t.Errorf("dial: got %v after %v, want ErrSilent after %v", err, took, handshakeTimeout)
	}
}

func dialEndsWithContext(t *testing.T, l *lab) {
	robot, pc := l.node(t, "robot"), l.node(t, "pc")
	for _, after := range []time.Duration{0, oneWay, 3 * oneWay, 100 * oneWay} {
		if after == 100*oneWay {
			l.cut()
		}
		ctx, cancel := context.WithTimeout(t.Context(), after)
		start := time.Now()
		_, err := pc.Dial(ctx, robot.LocalAddr())
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > after+time.Millisecond {
			t.Errorf("dial with %v: got %v after %v, want context.DeadlineExceeded", after, err, took)
		}
		cancel()
	}
}

func quietSessionStays(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	wait := time.NewTimer(3 * defaultIdleTimeout / 2)
	select {
	case <-robot.Done():
	case <-pc.Done():
	case <-wait.C:
	}
	if robot.Err() != nil || pc.Err() != nil {
		t.Errorf("err: got %v and %v, want both alive", robot.Err(), pc.Err())
	}
}

func diallerCloses(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	checkClose(t, pc, robot)
}

func listenerCloses(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	checkClose(t, robot, pc)
}

func checkClose(t *testing.T, closer, other *Session) {
	t.Helper()
	reads := make(chan error, 2)
	go func() {
		_, err := other.Control().Read(make([]byte, 1))
		reads <- err
	}()
	go func() {
		_, err := other.ReceiveDatagram(context.Background())
		reads <- err
	}()
	if err := closer.Close("rebooting\x1b[31m " + strings.Repeat("é", 500)); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := closer.Close("again"); err != nil {
		t.Errorf("close again: %v", err)
	}
	own, ok := errors.AsType[*CloseError](waitDone(t, closer))
	if !ok || own.Remote || !strings.HasPrefix(own.Reason, "rebooting?[31m é") {
		t.Errorf("own err: got %v", closer.Err())
	}
	for _, err := range []error{waitDone(t, other), <-reads, <-reads} {
		peers, ok := errors.AsType[*CloseError](err)
		if !ok || !peers.Remote || peers.Reason != own.Reason {
			t.Errorf("peer's err: got %v, want the reason %q", err, own.Reason)
		}
	}
	if err := closer.SendDatagram([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("send after close: got %v, want net.ErrClosed", err)
	}
	if _, err := closer.Control().Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after close: got %v, want net.ErrClosed", err)
	}
}

func restartedPeerIsNoticed(t *testing.T, l *lab) {
	robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
	_, pc := l.join(t, robotEnd, pcEnd)
	at := l.crash(robotEnd)
	robotEnd = l.startAt(t, at, Config{Key: l.keys[0], Node: nodeOf("robot"), Host: "robot"})
	start := time.Now()
	if err := pc.SendDatagram(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := waitDone(t, pc); !errors.Is(err, ErrRestarted) {
		t.Errorf("err: got %v, want ErrRestarted", err)
	}
	if took := time.Since(start); took > defaultIdleTimeout/2 {
		t.Errorf("noticed after %v, want one round trip", took)
	}
	l.join(t, robotEnd, pcEnd) // and is met again at once
}

func endpointCloseEnds(t *testing.T, l *lab) {
	robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
	robot, pc := l.join(t, robotEnd, pcEnd)
	accepted := make(chan error, 1)
	go func() {
		_, err := robotEnd.Accept(context.Background())
		accepted <- err
	}()
	for range 2 {
		if err := robotEnd.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if robot.Err() == nil {
		t.Error("the endpoint's own session is still alive after Close")
	}
	if err := waitDone(t, pc); err.Error() != "closed by peer: endpoint closed" {
		t.Errorf("peer's err: got %v", err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: got %v, want net.ErrClosed", err)
	}
	if _, err := robotEnd.Dial(t.Context(), pcEnd.LocalAddr()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial: got %v, want net.ErrClosed", err)
	}
	if _, _, err := l.sockets[robotEnd].ReadFrom(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("socket: got %v, want net.ErrClosed: the endpoint owns it", err)
	}
}

func brokenSocketIsReported(t *testing.T, l *lab) {
	robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
	robot, _ := l.join(t, robotEnd, pcEnd)
	l.sockets[robotEnd].Close()
	if _, err := robotEnd.Accept(t.Context()); err == nil {
		t.Error("accept on a broken socket: no error")
	}
	if err := waitDone(t, robot); !errors.Is(err, net.ErrClosed) {
		t.Errorf("err: got %v, want net.ErrClosed", err)
	}
}

func nodesDialEachOther(t *testing.T, l *lab) {
	robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
	dialled := make(chan error, 2)
	for _, d := range [][2]*Endpoint{{robotEnd, pcEnd}, {pcEnd, robotEnd}} {
		go func() {
			_, err := d[0].Dial(t.Context(), d[1].LocalAddr())
			dialled <- err
		}()
	}
	for range 2 {
		if err := <-dialled; err != nil {
			t.Error(err)
		}
	}
	for _, e := range []*Endpoint{robotEnd, pcEnd} {
		if _, err := e.Accept(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
