package transport

import (
	"bytes"
	"io"
	"testing"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// The scenarios of this file test how streams share a session with other streams, the control stream and datagrams.

func unreadStreamHoldsUpNobody(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	unread, _ := joinStream(t, robot, pc)
	ended := fill(unread)
	out, in := joinStream(t, robot, pc)
	for range 100 {
		write(t, out, "step")
		if _, err := io.ReadFull(in, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
	if err := robot.SendDatagram([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := receive(t, pc); err != nil {
		t.Errorf("datagram: %v", err)
	}
	select {
	case err := <-ended:
		t.Errorf("unread stream: write ended with %v, want it to block", err)
	default:
	}
	unread.Reset()
	await.Receive(t, "write", ended)
}

// unreadStreamsLeaveControl checks that twenty streams that are not read do not block the
// control stream.
func unreadStreamsLeaveControl(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	for range 20 {
		out, full := openStream(t, robot), make(chan error, 1)
		go func() {
			_, err := out.Write(make([]byte, session.StreamWindow))
			full <- err
		}()
		if err := await.Receive(t, "what a stream takes unread", full); err != nil {
			t.Fatal(err)
		}
	}
	message := mebibyte()
	sent, read := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := robot.Control().Write(message)
		sent <- err
	}()
	got := make([]byte, len(message))
	go func() {
		_, err := io.ReadFull(pc.Control(), got)
		read <- err
	}()
	if err := await.Receive(t, "control", sent); err != nil {
		t.Errorf("control: %v", err)
	}
	if err := await.Receive(t, "control", read); err != nil || !bytes.Equal(got, message) {
		t.Errorf("control: got other bytes, %v", err)
	}
}

// datagramsOvertakeStreams checks that a datagram is sent at once if a stream's writer does not
// exceed the path's rate. If the writer fills the congestion window, the datagram waits for the
// next acknowledgement, of which there is one for every second packet.
func datagramsOvertakeStreams(t *testing.T, l *lab) {
	const (
		rate   = 1_250_000 // 10 Mbit/s
		packet = session.PacketSize * time.Second / rate
	)
	robot, pc := l.pair(t)
	l.air.narrow(rate)
	for _, c := range []struct {
		every time.Duration // the writer's period
		want  time.Duration
	}{{2 * packet, 0}, {0, 2 * packet}} {
		out, in := joinStream(t, robot, pc)
		go io.Copy(io.Discard, in)
		ended := fill(pacedWriter{out, c.every})
		time.Sleep(10 * oneWay) // the first window was sent in one burst before
		for i := range need.LongOr(200, 30) {
			time.Sleep(4*packet + time.Duration(i%7)*packet/7)
			start := time.Now()
			if err := robot.SendDatagram(make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			if _, err := receive(t, pc); err != nil {
				t.Fatal(err)
			}
			onTheWay, ok := l.air.arrivedAfter(robot.RemoteAddr())
			if waited := time.Since(start) - onTheWay; !ok || waited > c.want {
				t.Errorf("beside a write every %v datagram %d left after %v, want %v", c.every, i, waited, c.want)
			}
		}
		out.Reset()
		await.Receive(t, "write", ended)
	}
}

// pacedWriter sleeps after every write.
type pacedWriter struct {
	io.Writer
	every time.Duration
}

func (w pacedWriter) Write(b []byte) (int, error) {
	defer time.Sleep(w.every)
	return w.Writer.Write(b)
}
