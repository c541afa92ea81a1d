package hub

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"achbridge/testnet/await"
)

// twoEnds opens a byte stream from robot to pc.
func twoEnds(t testing.TB, from, to *Client) (dialled, accepted net.Conn) {
	t.Helper()
	ctx := await.Context(t)
	got := make(chan net.Conn, 1)
	go func() {
		c, _ := to.Accept(ctx)
		got <- c
	}()
	await.NoError(t, func() (err error) { // fails while the hub is silent, on a busy machine
		dialled, err = from.Dial(ctx, to.credentials.Host)
		return err
	})
	accepted = <-got
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled, accepted
}

func TestDialToMissingHostFailsAtOnce(t *testing.T) {
	h := startHub(t, "robot", "pc")
	robot := h.connectedClient("robot")
	_, err := robot.Dial(await.Context(t), "pc")
	if !errors.Is(err, errNoHost) || err.Error() != "host pc: not connected to the hub" {
		t.Errorf("got %v, want errNoHost", err)
	}
}

// TestWrongMessageNumberEndsStream sends messages like a dishonest hub, which may publish to any
// subject.
func TestWrongMessageNumberEndsStream(t *testing.T) {
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
			_ = a.SetReadDeadline(await.Deadline())
			if _, err := a.Read(make([]byte, 1)); !errors.Is(err, errBroken) {
				t.Errorf("got %v, want errBroken", err)
			}
			_ = b.SetReadDeadline(await.Deadline())
			if _, err := b.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("other end: got %v, want io.EOF", err)
			}
		})
	}
}

// forgedFrom returns the subject of messages from the other end to this host.
func (c *Client) forgedFrom(other *session) string { return other.subject() }

func TestExceededCreditEndsStream(t *testing.T) {
	h := startHub(t, "robot", "pc")
	a, b := twoEnds(t, h.connectedClient("robot"), h.connectedClient("pc"))
	for number := range uint64(2 * streamCredit / maxData) {
		if err := h.owner.Publish(b.(*session).subject(), message{Number: number + 1, Kind: kindData, Data: make([]byte, maxData)}.append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	await.True(t, "ended", func() bool { return a.(*session).reason() != nil })
	s := a.(*session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !errors.Is(s.err, errBroken) || len(s.buffer) > streamCredit {
		t.Errorf("got %v with %d bytes kept, want errBroken and at most %d", s.err, len(s.buffer), streamCredit)
	}
}

func TestUnacceptedStreamsAreLimited(t *testing.T) {
	h := startHub(t, "robot", "pc")
	robot := h.connectedClient("robot")
	for range 5 * maxBacklog {
		if err := h.owner.Publish(controlOf("pc", "robot", "s"+nuidText()), message{Kind: kindOpen}.append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	_ = h.owner.Flush()
	await.True(t, "heard", func() bool { return len(robot.sessions.backlog) == maxBacklog })
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

func TestConnectionEndCancelsDial(t *testing.T) {
	h := startHub(t, "robot", "pc")
	robot := h.connectedClient("robot")
	h.connectedClient("pc") // accepts no stream
	l, _ := robot.current()
	failed := make(chan error, 1)
	go func() {
		_, err := robot.Dial(await.Context(t), "pc")
		failed <- err
	}()
	await.True(t, "dialling", func() bool {
		l.small.mu.Lock()
		defer l.small.mu.Unlock()
		return len(l.small.waiting) > 0
	})
	h.stop()
	if err := await.Receive(t, "the end of the dial", failed); !errors.Is(err, ErrNotConnected) {
		t.Errorf("got %v, want ErrNotConnected", err)
	}
}

func TestUnacceptedDialReturnsReason(t *testing.T) {
	h := startHub(t, "robot", "pc")
	robot, pc := h.connectedClient("robot"), h.connectedClient("pc")
	for range maxBacklog {
		pc.sessions.backlog <- newSession(pc, nil, sessionKey{"stranger", "1"})
	}
	_, err := robot.Dial(await.Context(t), "pc")
	if err == nil || err.Error() != "host pc closed the byte stream: too many byte streams wait" {
		t.Errorf("got %v, want that too many wait", err)
	}
}

// The hub reads nothing. The window is full before the credit is used up.
func TestDeadlineEndsBlockedWrite(t *testing.T) {
	t.Parallel()
	h := startHub(t, "robot", "pc")
	p := h.proxy()
	p.brims.Store(true)
	a, _ := twoEnds(t, h.connectedClient("robot", p.address()), h.connectedClient("pc"))
	p.hold()
	_ = a.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = a.Write(make([]byte, chunk))
		}
		ended <- err
	}()
	if err := await.Receive(t, "the end of the write", ended); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want os.ErrDeadlineExceeded", err)
	}
	await.Return(t, "close", func() { a.Close() })
}
