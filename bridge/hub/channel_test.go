package hub

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"achbridge/testnet/await"
)

// putOne puts a frame and waits for the acknowledgement. On a busy machine the hub may be silent
// until the client replaces the connection; putOne then puts the frame again.
func putOne(t testing.TB, ch *Channel, frame string) {
	t.Helper()
	ctx := await.Context(t)
	await.NoError(t, func() error {
		acked, err := ch.Put(ctx, []byte(frame))
		if err == nil {
			err = <-acked
		}
		if err != nil && !errors.Is(err, ErrNotConnected) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("put of %.20q: %v", frame, err)
		}
		return err
	})
}

func nextOne(t testing.TB, ch *Channel) string {
	t.Helper()
	b, err := ch.Next(await.Context(t))
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	return string(b)
}

// On the same connection, small frames of other channels would wait behind up to three large ones when a camera starts.
func TestFirstLargeFrameUsesSecondConnection(t *testing.T) {
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

func TestWaitingChannelDelaysNoOther(t *testing.T) {
	h := startHub(t, "robot")
	robot := h.connectedClient("robot")
	slow, other := robot.Channel("robot", "slow"), robot.Channel("robot", "other")
	defer other.Close()
	putOne(t, slow, "x")
	slow.put.mu.Lock()
	slow.put.trip = time.Hour // as if its frames had a distant hub
	slow.put.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- slow.Room(await.Context(t), 1) }()
	l, _ := robot.current()
	await.True(t, "waiting", func() bool { return len(slow.put.on(l)) == 1 })
	if _, err := other.Put(await.Context(t), []byte("y")); err != nil {
		t.Errorf("the other channel: %v", err)
	}
	slow.Close()
	if err := <-ended; err == nil {
		t.Error("the channel that was closed got room")
	}
}

// Another stream with the channel's subject could store the frames where no reader looks for them.
func TestAckOfOtherStreamIsRejected(t *testing.T) {
	p := &publisher{channel: &Channel{host: "robot", name: "imu"}}
	for stream, want := range map[string]string{
		StreamName("robot", "imu"):  "",
		StreamName("robot", "gps"):  "which achbridge did not make, takes the channel's frames",
		StreamName("robot2", "imu"): "which achbridge did not make, takes the channel's frames",
		"":                          "which achbridge did not make, takes the channel's frames",
	} {
		err := p.word(nil, &nats.Msg{Data: []byte(`{"stream":"` + stream + `","seq":1}`)})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("word(stream %q) = %v, want %q", stream, err, want)
		}
	}
}
