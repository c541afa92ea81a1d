package transport

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/transport/session"
)

func vanishedPeerIsNoticed(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	l.air.lose(1)
	start := time.Now()
	for _, s := range []*session.Session{robot, pc} {
		if err := waitDone(t, s); !errors.Is(err, session.ErrSilent) {
			t.Errorf("err: got %v, want ErrSilent", err)
		}
	}
	if took := time.Since(start); took > defaultIdleTimeout+100*time.Millisecond {
		t.Errorf("noticed after %v, want %v", took, defaultIdleTimeout)
	}
	if err := pc.SendDatagram([]byte("x")); !errors.Is(err, session.ErrSilent) {
		t.Errorf("send: got %v, want ErrSilent", err)
	}
	if _, err := pc.ReceiveDatagram(t.Context()); !errors.Is(err, session.ErrSilent) {
		t.Errorf("receive: got %v, want ErrSilent", err)
	}
}

func silentAddress(t *testing.T, l *lab) {
	robot, pc := l.node(t, "robot"), l.node(t, "pc")
	l.air.lose(1)
	start := time.Now()
	_, err := pc.Dial(t.Context(), robot.LocalAddrs())
	if took := time.Since(start); !errors.Is(err, session.ErrSilent) || took > session.HandshakeTimeout+time.Second {
		t.Errorf("dial: got %v after %v, want ErrSilent after %v", err, took, session.HandshakeTimeout)
	}
}

func dialEndsWithContext(t *testing.T, l *lab) {
	robot, pc := l.node(t, "robot"), l.node(t, "pc")
	for _, after := range []time.Duration{0, oneWay, 3 * oneWay, 100 * oneWay} {
		if after == 100*oneWay {
			l.air.lose(1)
		}
		ctx, cancel := context.WithTimeout(t.Context(), after)
		start := time.Now()
		_, err := pc.Dial(ctx, robot.LocalAddrs())
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > after+time.Millisecond {
			t.Errorf("dial with %v: got %v after %v, want context.DeadlineExceeded", after, err, took)
		}
		cancel()
	}
}

// overdue is the time after KeepAlive without packets after which package bridge treats the peer as silent.
const overdue = 300 * time.Millisecond

func quietSessionStays(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	received := [2]uint64{}
	for at := time.Duration(0); at < 3*defaultIdleTimeout/2; at += session.KeepAlive + overdue {
		select {
		case <-robot.Done():
		case <-pc.Done():
		case <-time.After(session.KeepAlive + overdue):
		}
		now := [2]uint64{robot.ReceivedPackets(), pc.ReceivedPackets()}
		if now[0] == received[0] || now[1] == received[1] {
			t.Fatalf("heard: got %v packets after %v, and %v before", now, at, received)
		}
		received = now
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

func checkClose(t *testing.T, closer, other *session.Session) {
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
	if err := closer.Close("rebooting\x1b[31m " + strings.Repeat("é", 5000)); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := closer.Close("again"); err != nil {
		t.Errorf("close again: %v", err)
	}
	own, ok := errors.AsType[*session.CloseError](waitDone(t, closer))
	if !ok || own.Remote || !strings.HasPrefix(own.Reason, "rebooting?[31m é") {
		t.Errorf("own err: got %v", closer.Err())
	}
	for _, err := range []error{waitDone(t, other), <-reads, <-reads} {
		peers, ok := errors.AsType[*session.CloseError](err)
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
	if err := waitDone(t, pc); !errors.Is(err, session.ErrRestarted) {
		t.Errorf("err: got %v, want errRestarted", err)
	}
	if took := time.Since(start); took > defaultIdleTimeout/2 && l.air != nil {
		t.Errorf("noticed after %v, want one round trip", took)
	}
	l.join(t, robotEnd, pcEnd) // the peer can be dialled again at once
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
	if _, err := robotEnd.Dial(t.Context(), pcEnd.LocalAddrs()); !errors.Is(err, net.ErrClosed) {
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
