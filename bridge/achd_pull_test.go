package bridge

import (
	"context"
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
	"time"

	"achbridge/bridge/achd"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// oldRobot is a host without a node. It runs our server for achd's protocol, on connections in
// virtual time.
type oldRobot struct {
	*host
	server *achd.Server
	conns  chan net.Conn

	mu     sync.Mutex
	off    bool       // the host refuses connections
	mute   bool       // another program listens and sends nothing
	open   []net.Conn // the clients' ends
	dialed int
}

func (w *world) oldRobot() *oldRobot {
	w.t.Helper()
	r := &oldRobot{host: w.host("robot", wire10ms), conns: make(chan net.Conn)}
	r.server = achd.New(achd.Config{
		Dir: r.dir, NewData: pollSource{r.puts}.NewData, Log: slog.New(slog.NewTextHandler(r.log, nil)),
		Command: func(string) bool { return false },
		Claim:   func(string, localach.Tag) (func(), error) { return func() {}, nil },
	})
	r.server.SetRules(achd.Rules{From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Channels: []string{"*"}, Accept: []string{"goal"}})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = r.server.Run(ctx, r) })
	w.t.Cleanup(func() { cancel(); run.Wait() })
	return r
}

// dial replaces the network of a node.
func (r *oldRobot) dial(_ context.Context, network, address string) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dialed++
	if r.off || network != "tcp" || address != "robot:8076" {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	r.open = append(r.open, theirs)
	if r.mute {
		return fromAddress{theirs, "10.0.0.1:8076"}, nil
	}
	select {
	case r.conns <- fromAddress{ours, "10.0.0.2:4711"}:
	case <-time.After(time.Second):
		return nil, errors.New("nobody accepts")
	}
	return fromAddress{theirs, "10.0.0.1:8076"}, nil
}

func (r *oldRobot) dials() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dialed
}

// goes switches the robot off or on.
func (r *oldRobot) goes(off bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off = off
	for _, conn := range r.open {
		conn.Close()
	}
	r.open = nil
}

func (r *oldRobot) Accept() (net.Conn, error) {
	conn, ok := <-r.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (r *oldRobot) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off = true
	close(r.conns)
	return nil
}

func (r *oldRobot) Addr() net.Addr { return &net.TCPAddr{} }

// fromAddress is a connection with the given remote address.
type fromAddress struct {
	net.Conn
	remote string
}

func (c fromAddress) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.remote))
}

// pulls runs a node that mirrors channels of the robot by achd's protocol.
func (r *oldRobot) pulls(rules ...string) *host {
	r.w.t.Helper()
	var mirrors rule.Mirrors
	for _, text := range rules {
		m, err := rule.ParseMirror(text, nil)
		if err != nil {
			r.w.t.Fatal(err)
		}
		mirrors = append(mirrors, m)
	}
	return r.w.host("pc", wire10ms).run(Config{Mirrors: mirrors, DialAchd: r.dial})
}

// Mirrors of a host that runs only achd have the usual status, without the facts that achd's
// protocol lacks.
func TestMirrorFollowsAchdHost(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.oldRobot()
		imu := robot.channel("imu", 16, 64)
		pc := robot.pulls("achd://robot/imu")
		w.within(time.Second, "the connection", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
		for i := range uint64(100) {
			imu.put(i+1, 64)
			time.Sleep(10 * time.Millisecond)
		}
		pc.follows("robot.imu", 100, 20*time.Millisecond)
		time.Sleep(time.Second)
		m := pc.mirror("robot.imu")
		if !m.Unauthenticated || !m.OneSided || m.Health() != status.HealthLive || m.AgeMs != nil || m.Age != nil {
			t.Errorf("got %+v, want it live, with the mark, without an age", m)
		}
		if m.SinceArrivalMs == nil || *m.SinceArrivalMs < 900 || *m.SinceArrivalMs > 1100 {
			t.Errorf("got %v ms since the last arrival, want 1000", m.SinceArrivalMs)
		}
		if m.PeriodMs == nil || *m.PeriodMs < 9 || *m.PeriodMs > 15 {
			t.Errorf("got a period of %v ms, want 10", m.PeriodMs)
		}
		if m.Seq != 100 || m.Delivered != 100 || m.Offered != 100 {
			t.Errorf("got frame %d, %+v, want all of 100", m.Seq, m.FrameCounters)
		}
		if n := strings.Count(pc.log.String(), "without authentication or encryption"); n != 1 {
			t.Errorf("got %d log lines on what achd lacks, want one", n)
		}
	})
}

func TestAchdMirrorInModeEveryGetsEveryFrame(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.oldRobot()
		imu := robot.channel("log", 64, 64)
		pc := robot.pulls("achd://robot/log,mode=every")
		w.within(time.Second, "the connection", func() bool { return pc.mirror("robot.log").State == status.MirrorLive })
		ch, err := pc.dir.Open("robot.log")
		if err != nil {
			t.Fatal(err)
		}
		defer ch.Close()
		reader, buf := ch.Reader(), make([]byte, 64)
		for i := range uint64(20) {
			for range 20 {
				imu.put(i+1, 64)
			}
			time.Sleep(100 * time.Millisecond)
			for k := range 20 {
				if _, err := reader.TryNextOldest(buf); err != nil || buf[0] != byte(i+1) {
					t.Fatalf("frame %d of burst %d: got %d, %v", k, i, buf[0], err)
				}
			}
		}
		if _, err := reader.TryNextOldest(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("one frame more, %v", err)
		}
	})
}

// achd gives up when a host or a channel is missing; a mirror waits and reports the reason.
func TestAchdMirrorRetriesUntilChannelExists(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.oldRobot()
		pc := robot.pulls("achd://robot/imu")
		waits := func(cause status.Cause, text string) func() bool {
			return func() bool {
				m := pc.mirror("robot.imu")
				return m.Health() == status.HealthWaiting && m.Cause == cause && strings.Contains(m.Reason, text) && m.Unauthenticated
			}
		}
		w.within(time.Second, "no channel", waits(status.CauseNoChannel, "it has no such channel"))
		if _, err := pc.see("robot.imu"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got a mirror file before the channel exists, want none: %v", err)
		}
		before := robot.dials()
		time.Sleep(time.Minute)
		if n := robot.dials() - before; n < 10 || n > 30 {
			t.Errorf("got %d connections in a minute, want those of a back-off of 5 s or up to a third less", n)
		}
		imu := robot.channel("imu", 16, 64)
		w.within(6*time.Second, "the connection", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
		imu.put(7, 64)
		pc.follows("robot.imu", 7, 20*time.Millisecond)
		time.Sleep(settled)

		robot.goes(true)
		w.within(time.Second, "no robot", waits(status.CausePeerSilent, "connection refused"))
		time.Sleep(10 * time.Second)
		robot.goes(false)
		w.within(6*time.Second, "the robot is back", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
		imu.put(8, 64)
		pc.follows("robot.imu", 8, 20*time.Millisecond)
		if lines := strings.Count(pc.log.String(), "\n"); lines > 20 {
			t.Errorf("%d lines in the log:\n%s", lines, pc.log.String())
		}
	})
}

func TestAchdRequestTimesOut(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.oldRobot()
		robot.mute = true
		pc := robot.pulls("achd://robot/imu")
		w.within(6*time.Second, "it is given up", func() bool {
			m := pc.mirror("robot.imu")
			return m.Cause == status.CausePeerSilent && strings.Contains(m.Reason, "no answer within 5s")
		})
	})
}

func TestAchdMirrorReconnectsOnlyForRequestChange(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.oldRobot()
		imu := robot.channel("imu", 16, 64)
		pc := robot.pulls("achd://robot/imu")
		w.within(time.Second, "the connection", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
		before := robot.dials()
		request := func(qos rule.QoS) {
			if err := pc.node.Mirror(rule.Mirror{Host: "achd://robot", Channel: "imu", QoS: qos}); err != nil {
				t.Fatal(err)
			}
		}
		request(rule.QoS{Deadline: 200 * time.Millisecond})
		time.Sleep(time.Second)
		if m := pc.mirror("robot.imu"); m.Health() != status.HealthStale || !m.Unauthenticated || robot.dials() != before {
			t.Errorf("got health %s after %d more connections, want stale, unauthenticated, after none", m.Health(), robot.dials()-before)
		}
		request(rule.QoS{MaxRate: 20_000})
		w.within(time.Second, "another connection", func() bool {
			return robot.dials() == before+1 && pc.mirror("robot.imu").State == status.MirrorLive
		})
		for i := range uint64(1000) {
			imu.put(i+1, 64)
			time.Sleep(time.Millisecond)
		}
		if m := pc.mirror("robot.imu"); m.Delivered < 18 || m.Delivered > 22 {
			t.Errorf("got %d frames in a second, want 20", m.Delivered)
		}
	})
}

// The file is restored after its removal, has one writer, and is removed with its request.
func TestAchdMirrorOwnsItsFile(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.oldRobot()
		imu := robot.channel("imu", 16, 64)
		pc := robot.pulls("achd://robot/imu,as=imu", "achd://robot/other,as=imu")
		w.within(time.Second, "the connection", func() bool { return pc.mirror("imu").State == status.MirrorLive })
		if _, err := pc.node.Claim("imu", localach.Tag{}); err == nil || !strings.Contains(err.Error(), "a mirror that achd://robot writes") {
			t.Errorf("another writer: got %v", err)
		}
		if from := pc.node.AchdSource("imu"); from != netip.MustParseAddr("10.0.0.1") {
			t.Errorf("got source %v", from)
		}
		if !strings.Contains(pc.log.String(), "give achd://robot/other another name") {
			t.Errorf("got this log, want a line on the second request for the name:\n%s", pc.log.String())
		}
		if err := pc.dir.Unlink("imu"); err != nil {
			t.Fatal(err)
		}
		w.within(5*time.Second, "the file is back", func() bool { _, err := os.Stat(pc.dir.Path("imu")); return err == nil })
		w.within(5*time.Second, "the connection", func() bool { return pc.mirror("imu").State == status.MirrorLive })
		imu.put(9, 200) // larger than the nominal size, and than the ring's share of one frame
		pc.follows("imu", 9, 20*time.Millisecond)
		if err := pc.node.Unmirror(rule.Mirror{Host: "achd://robot", Channel: "imu"}, Remove); err != nil {
			t.Fatal(err)
		}
		w.within(time.Second, "the robot's client has left", func() bool { return len(robot.server.Report().Clients) == 0 })
		if from := pc.node.AchdSource("imu"); from.IsValid() {
			t.Errorf("got source %v without a mirror", from)
		}
	})
}

// A host that may not read the channel may not read its mirror either.
func TestAchdMirrorIsNotExported(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.oldRobot()
		robot.channel("imu", 16, 64)
		pc, third := w.host("pc", wire10ms), w.host("third", wire10ms)
		pc.channel("imu", 16, 64)
		pc.run(Config{
			Mirrors: rule.Mirrors{{Host: "achd://robot", Channel: "imu", As: "imu"}, {Host: "achd://robot", Channel: "imu2"}},
			Adopt:   []string{"imu"}, Relay: []string{"*"}, DialAchd: robot.dial,
		}, third)
		robot.channel("imu2", 16, 64)
		pc.channel("own", 4, 64)
		third.run(Config{Mirrors: rule.Mirrors{{Host: "pc", Channel: "*"}}})
		w.within(7*time.Second, "the mirrors", func() bool {
			return pc.mirror("imu").State == status.MirrorLive && pc.mirror("robot.imu2").State == status.MirrorLive && third.mirror("pc.own").State == status.MirrorLive
		})
		time.Sleep(time.Second)
		for _, c := range third.node.Channels() {
			if c.Channel != "own" {
				t.Errorf("pc offers %s", c.Channel)
			}
		}
		for _, l := range pc.node.Status().Locals {
			if l.Channel != "own" && (l.Exported || !strings.Contains(l.Reason, "without authentication")) {
				t.Errorf("%s: got %+v", l.Channel, l)
			}
		}
	})
}

func TestAchdHostIsNotDialledWithoutRule(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.oldRobot()
		robot.channel("imu", 16, 64)
		pc := robot.pulls("*/*")
		if _, err := pc.node.MirrorTemporarily("achd://robot", "imu"); err == nil || !strings.Contains(err.Error(), "mirror it first") {
			t.Errorf("temporary mirror: got %v, want a refusal", err)
		}
		err := pc.node.Mirror(rule.Mirror{Host: "achd://robot", Channel: "imu", QoS: rule.QoS{Class: rule.Command}})
		if err == nil || !strings.Contains(err.Error(), "it carries no commands") {
			t.Errorf("commands: got %v", err)
		}
		time.Sleep(10 * time.Second)
		if n := robot.dials(); n != 0 {
			t.Errorf("got %d connections to the host, want none", n)
		}
	})
}

// gagged is a connection that can be gagged: it then stays open, but no data arrives, as from an achd whose channel was removed.
type gagged struct {
	net.Conn
	isGagged *atomic.Bool
}

func (c gagged) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.isGagged.Load() {
			return n, err
		}
	}
}

// A real achd sends nothing more once its channel is removed and created again. Only a new request gets frames.
func TestSilentAchdHostIsAskedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.oldRobot()
		imu := robot.channel("imu", 16, 64)
		first := true
		var gag atomic.Bool
		mirrors := rule.Mirrors{{Host: "achd://robot", Channel: "imu"}}
		pc := w.host("pc", wire10ms).run(Config{Mirrors: mirrors, DialAchd: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := robot.dial(ctx, network, address)
			if err == nil && first {
				first = false
				conn = gagged{conn, &gag}
			}
			return conn, err
		}})
		w.within(time.Second, "the connection", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
		imu.put(1, 64)
		w.within(time.Second, "the first frame", func() bool { return pc.mirror("robot.imu").Delivered == 1 })
		gag.Store(true)
		imu.put(2, 64)
		time.Sleep(21 * time.Second) // more than 10 s, so the standby is established
		imu.put(3, 64)
		w.within(time.Second, "a frame of the second connection", func() bool { number, _ := pc.newest("robot.imu"); return number == 3 })
		if n := robot.dials(); n != 2 {
			t.Errorf("got %d connections, want 2", n)
		}
	})
}

// A host may be silent because its channel has no new frames. No frame is then lost or put twice, and the host gets few requests.
func TestQuietAchdChannelLosesNoFrame(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.oldRobot()
		imu := robot.channel("imu", 16, 64)
		pc := robot.pulls("achd://robot/imu,mode=every")
		w.within(time.Second, "the connection", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
		for i := range uint64(20) {
			imu.put(i+1, 64)
			time.Sleep(17 * time.Second)
		}
		if number, _ := pc.newest("robot.imu"); number != 20 || pc.mirror("robot.imu").Delivered != 20 {
			t.Errorf("got %d frames, the newest %d, want 20", pc.mirror("robot.imu").Delivered, number)
		}
		time.Sleep(time.Hour)
		if n := robot.dials(); n > 60 {
			t.Errorf("got %d requests, want at most one in two minutes", n)
		}
	})
}
