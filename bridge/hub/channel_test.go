package hub

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// putOne puts a frame and waits for the hub's word.
func putOne(t testing.TB, ch *Channel, frame string) {
	t.Helper()
	acked, err := ch.Put(limited(t, 5*time.Second), []byte(frame))
	if err == nil {
		err = <-acked
	}
	if err != nil {
		t.Fatalf("put of %.20q: %v", frame, err)
	}
}

func nextOne(t testing.TB, ch *Channel) string {
	t.Helper()
	b, err := ch.Next(limited(t, 5*time.Second))
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	return string(b)
}

func TestTheNewestFrameIsPulled(t *testing.T) {
	h := startHub(t, "robot", "pc")
	robot, pc := h.connectedClient("robot"), h.connectedClient("pc")
	out, in := robot.Channel("robot", "imu"), pc.Channel("robot", "imu")
	defer out.Close()
	defer in.Close()
	putOne(t, out, "older")
	putOne(t, out, "newest")
	if got := nextOne(t, in); got != "newest" {
		t.Errorf("got %q, want newest", got)
	}
	for i := range 20 {
		want := fmt.Sprint("frame ", i)
		putOne(t, out, want)
		if got := nextOne(t, in); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestLargeFramesAreWhole(t *testing.T) {
	h := startHub(t, "robot", "pc")
	robot, pc := h.connectedClient("robot"), h.connectedClient("pc")
	out, in := robot.Channel("robot", "camera"), pc.Channel("robot", "camera")
	defer out.Close()
	defer in.Close()
	for i := range 5 {
		want := strings.Repeat(fmt.Sprint(i), 1000*(1<<(2*i)))
		putOne(t, out, want)
		if got := nextOne(t, in); got != want {
			t.Errorf("got %d bytes, want %d", len(got), len(want))
		}
	}
}

// Else small frames of other channels wait behind up to three large ones when a camera begins.
func TestTheFirstLargeFrameComesAside(t *testing.T) {
	h := startHub(t, "robot", "pc")
	robot, pc := h.connectedClient("robot"), h.connectedClient("pc")
	out, in := robot.Channel("robot", "camera"), pc.Channel("robot", "camera")
	defer out.Close()
	defer in.Close()
	const large = 50_000
	putOne(t, out, strings.Repeat("x", large))
	nextOne(t, in)
	l, _ := pc.current()
	if got := l.small.nc.Stats().InBytes; got >= large {
		t.Errorf("got %d bytes by the connection of small frames, want the frame of %d on the other one", got, large)
	}
}

func TestAChannelThatWaitsHoldsUpNoOther(t *testing.T) {
	h := startHub(t, "robot")
	robot := h.connectedClient("robot")
	slow, other := robot.Channel("robot", "slow"), robot.Channel("robot", "other")
	defer other.Close()
	putOne(t, slow, "x")
	slow.put.mu.Lock()
	slow.put.trip = time.Minute // as if the hub were far away for its frames
	slow.put.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- slow.Room(limited(t, 5*time.Second), 1) }()
	l, _ := robot.current()
	eventually(t, time.Second, "waiting", func() bool { return len(slow.put.on(l)) == 1 })
	if _, err := other.Put(limited(t, 2*time.Second), []byte("y")); err != nil {
		t.Errorf("the other channel: %v", err)
	}
	slow.Close()
	if err := <-ended; err == nil {
		t.Error("the channel that was closed got room")
	}
}
