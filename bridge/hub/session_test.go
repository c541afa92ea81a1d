package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"
)

// twoEnds is a byte stream from robot to pc.
func twoEnds(t testing.TB, from, to *Client) (dialled, accepted net.Conn) {
	t.Helper()
	ctx := limited(t, 5*time.Second)
	got := make(chan net.Conn, 1)
	go func() {
		c, _ := to.Accept(ctx)
		got <- c
	}()
	dialled, err := from.Dial(ctx, to.credentials.Host)
	if err != nil {
		t.Fatal(err)
	}
	accepted = <-got
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled, accepted
}

func TestTLSWorksOverAByteStream(t *testing.T) {
	h := startHub(t, "robot", "pc")
	a, b := twoEnds(t, h.connectedClient("robot"), h.connectedClient("pc"))
	if a.RemoteAddr().String() != "pc" || b.RemoteAddr().String() != "robot" {
		t.Errorf("got ends %s and %s, want pc and robot", a.RemoteAddr(), b.RemoteAddr())
	}
	server := tls.Server(b, &tls.Config{Certificates: []tls.Certificate{newCertificate(t)}})
	client := tls.Client(a, &tls.Config{InsecureSkipVerify: true})
	sent := make([]byte, 300_000)
	for i := range sent {
		sent[i] = byte(rand.Uint32())
	}
	go func() {
		_, _ = client.Write(sent)
		client.Close()
	}()
	got, err := io.ReadAll(server)
	if err != nil || string(got) != string(sent) {
		t.Errorf("got %d bytes, %v, want the %d bytes that were sent", len(got), err, len(sent))
	}
}

func TestAHostThatIsNotThereIsNamedAtOnce(t *testing.T) {
	h := startHub(t, "robot", "pc")
	robot := h.connectedClient("robot")
	begun := time.Now()
	_, err := robot.Dial(limited(t, 5*time.Second), "pc")
	if !errors.Is(err, errNoHost) || err.Error() != "host pc: not connected to the hub" {
		t.Errorf("got %v, want errNoHost", err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestDeadlinesEndReadsAndWrites(t *testing.T) {
	h := startHub(t, "robot", "pc")
	a, _ := twoEnds(t, h.connectedClient("robot"), h.connectedClient("pc"))
	_ = a.SetDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: got %v, want os.ErrDeadlineExceeded", err)
	}
	if n, err := a.Write(make([]byte, 10*streamCredit)); !errors.Is(err, os.ErrDeadlineExceeded) || n != 0 {
		t.Errorf("write: got %d, %v, want os.ErrDeadlineExceeded", n, err)
	}
	_ = a.SetDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := a.Write(make([]byte, 10*streamCredit)); !errors.Is(err, os.ErrDeadlineExceeded) || n != streamCredit {
		t.Errorf("write to who does not read: got %d, %v, want %d and os.ErrDeadlineExceeded", n, err, streamCredit)
	}
	_ = a.SetDeadline(time.Time{})
	go func() {
		time.Sleep(20 * time.Millisecond)
		a.Close()
	}()
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read: got %v, want net.ErrClosed", err)
	}
}

func TestTheOtherEndReadsWhatWasWrittenBeforeClose(t *testing.T) {
	h := startHub(t, "robot", "pc")
	a, b := twoEnds(t, h.connectedClient("robot"), h.connectedClient("pc"))
	if _, err := a.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if got, err := io.ReadAll(b); string(got) != "last words" || err != nil {
		t.Errorf("got %q, %v, want the last words", got, err)
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write: got %v, want io.ErrClosedPipe", err)
	}
}

// TestAWrongNumberEndsTheStream speaks as a lying hub would: it may publish anywhere.
func TestAWrongNumberEndsTheStream(t *testing.T) {
	data := func(number uint64, text string) []byte {
		return message{Number: number, Kind: kindData, Data: []byte(text)}.append(nil)
	}
	for name, forged := range map[string][]byte{
		"lost":       data(3, "x"),
		"doubled":    data(0, "x"),
		"opened":     message{Number: 1, Kind: kindOpen}.append(nil),
		"overcredit": message{Number: 1, Kind: kindCredit, Credit: 1 << 40}.append(nil),
		"uncredit":   message{Number: 1, Kind: kindCredit, Credit: 1}.append(nil),
		"no message": []byte("x"),
		"long":       append(data(1, "x"), make([]byte, maxData)...),
	} {
		t.Run(name, func(t *testing.T) {
			h := startHub(t, "robot", "pc")
			a, b := twoEnds(t, h.connectedClient("robot"), h.connectedClient("pc"))
			if err := h.owner.Publish(a.(*session).client.forgedFrom(b.(*session)), forged); err != nil {
				t.Fatal(err)
			}
			_ = a.SetReadDeadline(time.Now().Add(5 * time.Second))
			if _, err := a.Read(make([]byte, 1)); !errors.Is(err, errBroken) {
				t.Errorf("got %v, want errBroken", err)
			}
			_ = b.SetReadDeadline(time.Now().Add(5 * time.Second))
			if _, err := b.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("other end: got %v, want io.EOF", err)
			}
		})
	}
}

// forgedFrom is the subject of messages from the other end to this host.
func (c *Client) forgedFrom(other *session) string { return other.subject() }

func TestMoreThanTheCreditEndsTheStream(t *testing.T) {
	h := startHub(t, "robot", "pc")
	a, b := twoEnds(t, h.connectedClient("robot"), h.connectedClient("pc"))
	for number := range uint64(2 * streamCredit / maxData) {
		if err := h.owner.Publish(b.(*session).subject(), message{Number: number + 1, Kind: kindData, Data: make([]byte, maxData)}.append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 5*time.Second, "ended", func() bool { return a.(*session).reason() != nil })
	s := a.(*session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !errors.Is(s.err, errBroken) || len(s.buffer) > streamCredit {
		t.Errorf("got %v with %d bytes kept, want errBroken and at most %d", s.err, len(s.buffer), streamCredit)
	}
}

func TestStreamsOfStrangersAreBounded(t *testing.T) {
	h := startHub(t, "robot", "pc")
	robot := h.connectedClient("robot")
	for range 5 * maxBacklog {
		if err := h.owner.Publish(controlOf("pc", "robot", "s"+nuidText()), message{Kind: kindOpen}.append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	_ = h.owner.Flush()
	eventually(t, 5*time.Second, "heard", func() bool { return len(robot.sessions.backlog) == maxBacklog })
	putOne(t, robot.Channel("robot", "imu"), "still works")
	robot.sessions.mu.Lock()
	defer robot.sessions.mu.Unlock()
	if n := len(robot.sessions.open); n > maxBacklog {
		t.Errorf("got %d streams, want at most %d", n, maxBacklog)
	}
}

func nuidText() string {
	b := make([]byte, 8)
	for i := range b {
		b[i] = 'a' + byte(rand.N(26))
	}
	return string(b)
}

func TestTheEndOfAConnectionEndsItsStreams(t *testing.T) {
	h := startHub(t, "robot", "pc")
	a, b := twoEnds(t, h.connectedClient("robot"), h.connectedClient("pc"))
	h.stop()
	for _, c := range []net.Conn{a, b} {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, ErrNotConnected) {
			t.Errorf("got %v, want ErrNotConnected", err)
		}
	}
}

func TestAcceptEndsWithItsContext(t *testing.T) {
	h := startHub(t, "robot")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := h.client("robot").Accept(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestTheEndOfAConnectionEndsADialThatWaits(t *testing.T) {
	h := startHub(t, "robot", "pc")
	robot := h.connectedClient("robot")
	h.connectedClient("pc") // which accepts nothing
	l, _ := robot.current()
	failed := make(chan error)
	go func() {
		_, err := robot.Dial(limited(t, 20*time.Second), "pc")
		failed <- err
	}()
	eventually(t, 5*time.Second, "dialling", func() bool {
		l.small.mu.Lock()
		defer l.small.mu.Unlock()
		return len(l.small.waiting) > 0
	})
	h.stop()
	select {
	case err := <-failed:
		if !errors.Is(err, ErrNotConnected) {
			t.Errorf("got %v, want ErrNotConnected", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it waits still")
	}
}

func TestADialThatIsNotAcceptedSaysWhy(t *testing.T) {
	h := startHub(t, "robot", "pc")
	robot, pc := h.connectedClient("robot"), h.connectedClient("pc")
	for range maxBacklog {
		pc.sessions.backlog <- newSession(pc, nil, sessionKey{"stranger", "1"})
	}
	_, err := robot.Dial(limited(t, 5*time.Second), "pc")
	if err == nil || err.Error() != "host pc closed the byte stream: too many byte streams wait" {
		t.Errorf("got %v, want that too many wait", err)
	}
}

// The hub takes nothing: a full window, which comes before the end of the credit.
func TestADeadlineEndsAWriteThatTheHubDoesNotTake(t *testing.T) {
	h := startHub(t, "robot", "pc")
	p := h.proxy()
	p.brims.Store(true)
	a, _ := twoEnds(t, h.connectedClient("robot", p.address()), h.connectedClient("pc"))
	p.hold()
	_ = a.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	ended := make(chan error)
	go func() {
		var err error
		for err == nil {
			_, err = a.Write(make([]byte, chunk))
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want os.ErrDeadlineExceeded", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the write has no end")
	}
	begun := time.Now()
	a.Close()
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %v to close", took)
	}
}
