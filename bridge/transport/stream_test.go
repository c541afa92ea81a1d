package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/testnet/await"
)

// mebibyte returns a mebibyte of data without repetitions.
func mebibyte() []byte {
	b := make([]byte, 0, 1<<20)
	for i := uint32(0); len(b) < 1<<20; i++ {
		b = append(b, byte(i), byte(i>>8), byte(i>>16), byte(i*i))
	}
	return b
}

func openStream(t *testing.T, s *session.Session) session.SendStream {
	t.Helper()
	stream, err := s.OpenStream()
	if err != nil {
		t.Fatalf("open stream: %v", err)
	}
	return stream
}

func acceptStream(t *testing.T, s *session.Session) session.ReceiveStream {
	t.Helper()
	stream, err := s.AcceptStream(await.Context(t))
	if err != nil {
		t.Fatalf("accept stream: %v", err)
	}
	return stream
}

// joinStream opens a stream between two sessions. The receiver has read the stream's first byte.
func joinStream(t *testing.T, from, to *session.Session) (session.SendStream, session.ReceiveStream) {
	t.Helper()
	out := openStream(t, from)
	write(t, out, "!")
	in := acceptStream(t, to)
	if _, err := io.ReadFull(in, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return out, in
}

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if n, err := w.Write([]byte(text)); err != nil || n != len(text) {
		t.Fatalf("write: got %d, %v, want %d", n, err, len(text))
	}
}

// fill writes until it gets an error, which it sends to the channel.
func fill(w io.Writer) <-chan error {
	ended := make(chan error, 1)
	go func() {
		chunk := make([]byte, 1100)
		for {
			if _, err := w.Write(chunk); err != nil {
				ended <- err
				return
			}
		}
	}()
	return ended
}

func streamCarriesAMebibyte(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	carryMebibyte(t, robot, pc)
	carryMebibyte(t, pc, robot)
}

func carryMebibyte(t *testing.T, from, to *session.Session) {
	message := mebibyte()
	out := openStream(t, from)
	sent := make(chan error, 1)
	go func() {
		_, err := out.Write(message)
		out.Close()
		sent <- err
	}()
	got, err := io.ReadAll(acceptStream(t, to))
	if err != nil || !bytes.Equal(got, message) {
		t.Errorf("read: got %d bytes, %v, want %d as they were written", len(got), err, len(message))
	}
	if err := await.Receive(t, "write", sent); err != nil {
		t.Errorf("write: %v", err)
	}
	if _, err := out.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after close: got %v, want net.ErrClosed", err)
	}
}

func streamSurvivesLoss(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	l.air.lose(0.05)
	carryMebibyte(t, robot, pc)
	carryMebibyte(t, pc, robot)
}

func streamsArriveInOrder(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	const count = 5
	var out []session.SendStream
	for range count {
		out = append(out, openStream(t, robot))
	}
	for i := count - 1; i >= 0; i-- { // written in another order than opened
		write(t, out[i], string(rune('a'+i)))
		out[i].Close()
	}
	for i := range count {
		got, err := io.ReadAll(acceptStream(t, pc))
		if want := string(rune('a' + i)); err != nil || string(got) != want {
			t.Errorf("stream %d: got %q, %v, want %q", i, got, err, want)
		}
	}
}

func resetEndsStream(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	out, in := joinStream(t, robot, pc)
	ended := fill(out) // blocks sooner or later, as nobody reads
	out.Reset()
	if err := await.Receive(t, "write", ended); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write: got %v, want net.ErrClosed", err)
	}
	if _, err := io.Copy(io.Discard, in); !errors.Is(err, session.ErrReset) {
		t.Errorf("read: got %v, want ErrReset", err)
	}
	in.Stop()
	out.Reset()
	out.Close()

	openStream(t, robot).Reset() // before its first byte
	if _, err := acceptStream(t, pc).Read(make([]byte, 1)); !errors.Is(err, session.ErrReset) {
		t.Errorf("read: got %v, want ErrReset", err)
	}
}

func stoppedReaderEndsWriter(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	out, in := joinStream(t, robot, pc)
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, in)
		read <- err
	}()
	ended := fill(out)
	in.Stop()
	if err := await.Receive(t, "read", read); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read: got %v, want net.ErrClosed", err)
	}
	if err := await.Receive(t, "write", ended); !errors.Is(err, session.ErrStopped) {
		t.Errorf("write: got %v, want errStopped", err)
	}
	out.Close()
	in.Stop()
}

func streamLimitIsAnError(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	var out []session.SendStream
	for range session.MaxStreams {
		out = append(out, openStream(t, pc))
	}
	if _, err := pc.OpenStream(); !errors.Is(err, session.ErrStreamLimit) {
		t.Fatalf("one stream more: got %v, want errStreamLimit", err)
	}
	openStream(t, robot).Reset() // the other direction has a limit of its own
	out[0].Close()
	out[1].Reset()
	write(t, out[2], "x")
	if _, err := io.ReadAll(acceptStream(t, robot)); err != nil {
		t.Fatal(err)
	}
	if _, err := acceptStream(t, robot).Read(make([]byte, 1)); !errors.Is(err, session.ErrReset) {
		t.Fatal(err)
	}
	acceptStream(t, robot).Stop()
	for range 3 {
		await.True(t, "an ended stream makes room", func() bool {
			_, err := pc.OpenStream()
			return err == nil
		})
	}
	if _, err := pc.OpenStream(); !errors.Is(err, session.ErrStreamLimit) {
		t.Errorf("one stream more: got %v, want errStreamLimit", err)
	}
}

func acceptStreamEndsWithContext(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := robot.AcceptStream(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("accept: got %v, want context.DeadlineExceeded", err)
	}
	joinStream(t, pc, robot) // the next call returns what has arrived since
}

func closeEndsBlockedStreams(t *testing.T, l *lab) {
	robot, pc := l.pair(t)
	blocked := make(map[string]<-chan error)
	start := func(what string, f func() error) {
		ended := make(chan error, 1)
		go func() { ended <- f() }()
		blocked[what] = ended
	}
	for name, dir := range map[string][2]*session.Session{"robot": {robot, pc}, "pc": {pc, robot}} {
		full, _ := joinStream(t, dir[0], dir[1])
		blocked[name+"'s write"] = fill(full)
		_, in := joinStream(t, dir[1], dir[0])
		start(name+"'s read", func() error {
			_, err := in.Read(make([]byte, 1))
			return err
		})
	}
	for name, s := range map[string]*session.Session{"robot": robot, "pc": pc} { // only now, since a session permits one AcceptStream at a time
		start(name+"'s accept", func() error {
			_, err := s.AcceptStream(context.Background())
			return err
		})
	}
	pc.Close("rebooting")
	waitDone(t, robot)
	for what, c := range blocked {
		err, ok := errors.AsType[*session.CloseError](await.Receive(t, what, c))
		if !ok || err.Reason != "rebooting" {
			t.Errorf("%s: got %v, want the end of the session", what, err)
		}
	}
	for _, s := range []*session.Session{robot, pc} {
		if _, err := s.OpenStream(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("open: got %v, want net.ErrClosed", err)
		}
	}
}
