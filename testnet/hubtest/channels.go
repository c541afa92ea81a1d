package hubtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"achbridge/testnet/await"
)

// put puts a frame and waits for the hub's acknowledgement.
func put(t testing.TB, c Channel, frame string) {
	t.Helper()
	acked, err := c.Put(await.Context(t), []byte(frame))
	if err == nil {
		err = awaitAck(t, acked)
	}
	if err != nil {
		t.Fatalf("put of %.20q: %v", frame, err)
	}
}

// awaitAck waits for the hub's acknowledgement of a frame and returns it.
func awaitAck(t testing.TB, acked <-chan error) error {
	t.Helper()
	return await.Receive(t, "the hub says nothing", acked)
}

func next(t testing.TB, c Channel) string {
	t.Helper()
	b, err := c.Next(await.Context(t))
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	return string(b)
}

// wantNothing checks that no further frame arrives.
func wantNothing(t testing.TB, c Channel) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), quietTime)
	defer cancel()
	if b, err := c.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("next: got %.20q, %v, want nothing", b, err)
	}
}

// channel returns a channel of robot, for robot to write and for the readers to read.
func channel(t *testing.T, robot Hub, readers ...Hub) (out Channel, in []Channel) {
	t.Helper()
	out = robot.Channel("robot", "imu")
	t.Cleanup(out.Close)
	for _, r := range readers {
		c := r.Channel("robot", "imu")
		t.Cleanup(c.Close)
		in = append(in, c)
	}
	return out, in
}

func readerBeginsWithNewest(t *testing.T, l *Lab) {
	out, in := channel(t, l.Host("robot"), l.Host("pc"))
	put(t, out, "older")
	put(t, out, "newest")
	if got := next(t, in[0]); got != "newest" {
		t.Errorf("got %q, want newest", got)
	}
	wantNothing(t, in[0])
}

func readerKeepsUp(t *testing.T, l *Lab) {
	out, in := channel(t, l.Host("robot"), l.Host("pc"))
	for i := range 50 {
		put(t, out, strconv.Itoa(i))
		if got, want := next(t, in[0]), strconv.Itoa(i); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// slowReader checks that a slow reader does not get frames that were replaced at the hub.
func slowReader(t *testing.T, l *Lab) {
	out, in := channel(t, l.Host("robot"), l.Host("pc"))
	put(t, out, "0")
	next(t, in[0]) // its fetches now wait at the hub
	const frames = 200
	for i := range frames {
		put(t, out, strconv.Itoa(i+1))
	}
	last, count := 0, 0
	for last < frames {
		n, err := strconv.Atoi(next(t, in[0]))
		if err != nil || n <= last {
			t.Fatalf("got frame %d after %d, %v", n, last, err)
		}
		last = n
		count++
	}
	if count > 5 {
		t.Errorf("got %d of %d frames, want at most 5: three for the pulls and those that came meanwhile", count, frames)
	}
	wantNothing(t, in[0])
}

func eachReader(t *testing.T, l *Lab) {
	out, in := channel(t, l.Host("robot"), l.Host("pc"), l.Host("recorder"))
	for i := range 10 {
		put(t, out, strconv.Itoa(i))
		for _, c := range in {
			if got, want := next(t, c), strconv.Itoa(i); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	}
}

func readerWaits(t *testing.T, l *Lab) {
	out, in := channel(t, l.Host("robot"), l.Host("pc"))
	wantNothing(t, in[0])
	got := make(chan string, 1)
	ctx := await.Context(t)
	go func() {
		b, _ := in[0].Next(ctx)
		got <- string(b)
	}()
	put(t, out, "first")
	if s := <-got; s != "first" {
		t.Errorf("got %q, want first", s)
	}
}

func channelsDoNotMix(t *testing.T, l *Lab) {
	robot, arm := l.Host("robot"), l.Host("arm")
	reader := l.Host("pc")
	want := map[string]Channel{}
	for _, c := range []struct {
		host Hub
		name string
		of   string
	}{{robot, "imu", "robot"}, {robot, "imu-2", "robot"}, {robot, "a.b", "robot"}, {arm, "imu", "arm"}, {arm, "a.b", "arm"}} {
		out, in := c.host.Channel(c.of, c.name), reader.Channel(c.of, c.name)
		t.Cleanup(out.Close)
		t.Cleanup(in.Close)
		put(t, out, c.of+"/"+c.name)
		want[c.of+"/"+c.name] = in
	}
	for frame, in := range want {
		if got := next(t, in); got != frame {
			t.Errorf("got %q, want %q", got, frame)
		}
	}
}

func framesAreWhole(t *testing.T, l *Lab) {
	out, in := channel(t, l.Host("robot"), l.Host("pc"))
	for size := 1; ; size = min(4*size+1, l.MaxFrame) {
		want := pattern(size, byte(size))
		put(t, out, string(want))
		if got := next(t, in[0]); got != string(want) {
			t.Errorf("frame of %d bytes: got %d bytes, or others", size, len(got))
		}
		if size == l.MaxFrame {
			return
		}
	}
}

func framesBelongToCaller(t *testing.T, l *Lab) {
	out, in := channel(t, l.Host("robot"), l.Host("pc"), l.Host("recorder"))
	b := []byte("frame")
	acked, err := out.Put(await.Context(t), b)
	if err != nil {
		t.Fatal(err)
	}
	copy(b, "XXXXX")
	if err := awaitAck(t, acked); err != nil {
		t.Fatal(err)
	}
	first, err := in[0].Next(await.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(first); got != "frame" {
		t.Errorf("got %q, want what was put", got)
	}
	copy(first, "YYYYY")
	if got := next(t, in[1]); got != "frame" {
		t.Errorf("other reader: got %q, want what was put", got)
	}
}

func tooLarge(t *testing.T, l *Lab) {
	out, in := channel(t, l.Host("robot"), l.Host("pc"))
	if _, err := out.Put(await.Context(t), make([]byte, l.MaxFrame+1)); !errors.Is(err, l.TooLarge) {
		t.Errorf("put: got %v, want %v", err, l.TooLarge)
	}
	put(t, out, "small")
	if got := next(t, in[0]); got != "small" {
		t.Errorf("got %q, want small", got)
	}
}

// roomForTwo checks that two frames may be in flight, and that they arrive at the hub in the order of the calls.
func roomForTwo(t *testing.T, l *Lab) {
	out, in := channel(t, l.Host("robot"), l.Host("pc"))
	var words []<-chan error
	for i := range 20 {
		if err := out.Room(await.Context(t), 100); err != nil {
			t.Fatal(err)
		}
		acked, err := out.Put(await.Context(t), []byte(strconv.Itoa(i)))
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, acked)
		open := 0
		for _, w := range words {
			if len(w) == 0 {
				open++
			}
		}
		if open > 2 {
			t.Errorf("frame %d: %d are not acknowledged, want at most 2", i, open)
		}
	}
	for i, w := range words {
		if err := awaitAck(t, w); err != nil {
			t.Errorf("frame %d: %v", i, err)
		}
	}
	if got := next(t, in[0]); got != "19" {
		t.Errorf("newest: got %q, want 19", got)
	}
}

func channelCallsEnd(t *testing.T, l *Lab) {
	robot := l.Host("robot")
	c := robot.Channel("robot", "imu")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("next: got %v, want context.Canceled", err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Next(context.Background())
		ended <- err
	}()
	time.Sleep(quietTime)
	c.Close()
	if err := await.Receive(t, "next is still blocked after close", ended); err == nil {
		t.Error("next: no error after close")
	}
	c.Close()
}

func framesWithoutConnectionAreNotKept(t *testing.T, l *Lab) {
	robot := l.Host("robot")
	out, in := channel(t, robot, l.Host("pc"))
	put(t, out, "before")
	l.Cut("robot")
	for i := range 3 {
		if _, err := out.Put(await.Context(t), fmt.Appendf(nil, "in the cut %d", i)); !errors.Is(err, l.Away) {
			t.Errorf("put: got %v, want %v", err, l.Away)
		}
		if err := out.Room(await.Context(t), 100); !errors.Is(err, l.Away) {
			t.Errorf("room: got %v, want %v", err, l.Away)
		}
	}
	l.Restore("robot")
	if got := next(t, in[0]); got != "before" {
		t.Errorf("got %q, want what was there before", got)
	}
	wantNothing(t, in[0])
	put(t, out, "after")
	if got := next(t, in[0]); got != "after" {
		t.Errorf("got %q, want after", got)
	}
}

// readerResumes checks reading after a cut. The first frame may be one that arrived before.
func readerResumes(t *testing.T, l *Lab) {
	pc := l.Host("pc")
	out, in := channel(t, l.Host("robot"), pc)
	put(t, out, "first")
	next(t, in[0])
	l.Cut("pc")
	put(t, out, "second")
	put(t, out, "third")
	l.Restore("pc")
	got := ""
	for ctx := await.Context(t); got != "third"; {
		b, err := in[0].Next(ctx)
		switch got = string(b); {
		case errors.Is(err, l.Away):
			time.Sleep(quietTime)
		case err != nil:
			t.Fatal(err)
		case bytes.Equal(b, []byte("second")):
			t.Fatal("got second, which was replaced")
		}
	}
}
