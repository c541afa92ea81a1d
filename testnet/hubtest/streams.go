package hubtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"achbridge/testnet/await"
)

// stream opens a stream between two hosts and returns its ends.
func stream(t *testing.T, from, to Hub, name string) (dialled, accepted net.Conn) {
	t.Helper()
	type result struct {
		conn net.Conn
		err  error
	}
	taken := make(chan result, 1)
	ctx := await.Context(t)
	go func() {
		c, err := to.Accept(ctx)
		taken <- result{c, err}
	}()
	dialled, err := from.Dial(ctx, name)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	r := <-taken
	if r.err != nil {
		t.Fatalf("accept: %v", r.err)
	}
	t.Cleanup(func() { dialled.Close(); r.conn.Close() })
	return dialled, r.conn
}

// pattern returns n bytes of a pattern that depends on the position and seed.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*7 ^ byte(i>>16) ^ seed
	}
	return b
}

func streamCarriesBytes(t *testing.T, l *Lab) {
	a, b := stream(t, l.Host("robot"), l.Host("pc"), "pc")
	const size = 1 << 20
	done := make(chan error, 4)
	for i, c := range []net.Conn{a, b} {
		go func() {
			_, err := c.Write(pattern(size, byte(i)))
			done <- err
		}()
		go func() {
			got := make([]byte, size)
			_, err := io.ReadFull(c, got)
			if err == nil && !bytes.Equal(got, pattern(size, byte(1-i))) {
				err = errors.New("other bytes")
			}
			done <- err
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func streamsKnowTheirHosts(t *testing.T, l *Lab) {
	a, b := stream(t, l.Host("robot"), l.Host("pc"), "pc")
	if got := a.RemoteAddr().String(); got != "pc" {
		t.Errorf("dialler's remote address: got %s, want pc", got)
	}
	if got := b.RemoteAddr().String(); got != "robot" {
		t.Errorf("acceptor's remote address: got %s, want robot", got)
	}
}

func manyStreams(t *testing.T, l *Lab) {
	robot, pc := l.Host("robot"), l.Host("pc")
	const streams = 20
	done := make(chan error, streams)
	for i := range streams {
		from, to, name := robot, pc, "pc"
		if i%2 == 1 {
			from, to, name = pc, robot, "robot"
		}
		a, b := stream(t, from, to, name)
		want := fmt.Sprint("stream ", i)
		go a.Write([]byte(want))
		go func() {
			got := make([]byte, len(want))
			_, err := io.ReadFull(b, got)
			if err == nil && string(got) != want {
				err = fmt.Errorf("got %q, want %q", got, want)
			}
			done <- err
		}()
	}
	for range streams {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func writtenBeforeClose(t *testing.T, l *Lab) {
	a, b := stream(t, l.Host("robot"), l.Host("pc"), "pc")
	if _, err := a.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	a.Close()
	b.SetDeadline(await.Deadline())
	if got, err := io.ReadAll(b); string(got) != "last words" || err != nil {
		t.Errorf("got %q, %v, want the last words and io.EOF", got, err)
	}
	if _, err := b.Write([]byte("x")); err == nil {
		t.Error("write to a closed stream: no error")
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after close: got %v, want net.ErrClosed", err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after close: got %v, want net.ErrClosed", err)
	}
}

func closeEndsBlockedCalls(t *testing.T, l *Lab) {
	a, b := stream(t, l.Host("robot"), l.Host("pc"), "pc")
	blocked := make(chan error, 4)
	for _, c := range []net.Conn{a, b} {
		go func() {
			_, err := c.Write(make([]byte, 10<<20)) // more than the other end reads
			blocked <- err
		}()
	}
	stop := make(chan bool)
	go func() { // a blocked reader must end as well
		buf := make([]byte, 1000)
		for {
			if _, err := b.Read(buf); err != nil {
				blocked <- err
				return
			}
			select {
			case <-stop:
			case <-time.After(quietTime):
			}
		}
	}()
	select {
	case err := <-blocked:
		t.Errorf("before close: got %v, want to wait", err)
	case <-time.After(quietTime):
	}
	a.Close()
	close(stop)
	for range 3 {
		if err := await.Receive(t, "a call is still blocked after close", blocked); err == nil {
			t.Error("a call that was blocked ended without an error")
		}
	}
}

func writerWaits(t *testing.T, l *Lab) {
	a, b := stream(t, l.Host("robot"), l.Host("pc"), "pc")
	const size = 4 << 20
	written := make(chan error, 1)
	go func() {
		_, err := a.Write(pattern(size, 1))
		written <- err
	}()
	select {
	case err := <-written:
		t.Fatalf("write of %d bytes that nobody reads: got %v, want to wait", size, err)
	case <-time.After(quietTime):
	}
	got := make([]byte, size)
	if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, pattern(size, 1)) {
		t.Errorf("read: %v, or other bytes", err)
	}
	if err := <-written; err != nil {
		t.Errorf("write: %v", err)
	}
}

func deadlinesEndCalls(t *testing.T, l *Lab) {
	a, _ := stream(t, l.Host("robot"), l.Host("pc"), "pc")
	for name, set := range map[string]func(time.Time) error{"read": a.SetReadDeadline, "both": a.SetDeadline} {
		set(time.Now().Add(quietTime))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: read: got %v, want os.ErrDeadlineExceeded", name, err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: read again: got %v, want os.ErrDeadlineExceeded", name, err)
		}
		set(time.Time{})
	}
	a.SetWriteDeadline(time.Now().Add(quietTime))
	if n, err := a.Write(make([]byte, 10<<20)); !errors.Is(err, os.ErrDeadlineExceeded) || n == 10<<20 {
		t.Errorf("write: got %d, %v, want os.ErrDeadlineExceeded", n, err)
	}
	if n, err := a.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || n != 0 {
		t.Errorf("write again: got %d, %v, want os.ErrDeadlineExceeded", n, err)
	}
}

// deadlineMoves checks that a deadline in the past ends a blocked call, which crypto/tls needs.
func deadlineMoves(t *testing.T, l *Lab) {
	a, b := stream(t, l.Host("robot"), l.Host("pc"), "pc")
	a.SetReadDeadline(time.Now().Add(time.Hour))
	time.AfterFunc(quietTime, func() { a.SetReadDeadline(time.Now()) })
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: got %v, want os.ErrDeadlineExceeded", err)
	}
	a.SetReadDeadline(time.Time{})
	if _, err := b.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("read without a deadline: got %d, %v", n, err)
	}
}

func dialOfAbsentHost(t *testing.T, l *Lab) {
	robot := l.Host("robot")
	if c, err := robot.Dial(await.Context(t), "nobody"); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial of nobody: got %v, %v, want an error that says so", c, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l.Host("pc") // does not call Accept
	if c, err := robot.Dial(ctx, "pc"); !errors.Is(err, context.Canceled) {
		t.Errorf("dial with a context that has ended: got %v, %v, want context.Canceled", c, err)
	}
}

func acceptEnds(t *testing.T, l *Lab) {
	robot := l.Host("robot")
	ctx, cancel := context.WithTimeout(context.Background(), quietTime)
	defer cancel()
	if c, err := robot.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("accept: got %v, %v, want context.DeadlineExceeded", c, err)
	}
}

func lostConnectionEndsStreams(t *testing.T, l *Lab) {
	robot, pc := l.Host("robot"), l.Host("pc")
	a, b := stream(t, robot, pc, "pc")
	l.Cut("robot")
	a.SetDeadline(await.Deadline())
	b.SetDeadline(await.Deadline())
	if _, err := a.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read at the host that was cut off: got %v, want its end", err)
	}
	if _, err := robot.Dial(await.Context(t), "pc"); !errors.Is(err, l.Away) {
		t.Errorf("dial without a connection: got %v, want %v", err, l.Away)
	}
	l.Restore("robot")
	// The host no longer knows the stream, so writes of the other end fail soon.
	await.True(t, "the other end still writes", func() bool {
		_, err := b.Write([]byte("x"))
		return err != nil
	})
	stream(t, robot, pc, "pc")
}
