package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// stream is a continuous flow of frames: robot puts the number of each frame, and pc reads.
type stream struct {
	mu       sync.Mutex
	put, got int
	acked    int
	err      error
}

// begin starts a stream, which ends with the test.
func begin(t *testing.T, robot, pc *Client) *stream {
	t.Helper()
	out, in := robot.Channel("robot", "imu"), pc.Channel("robot", "imu")
	s := &stream{}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		wait.Wait()
		out.Close()
		in.Close()
	})
	wait.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			limit, stop := context.WithTimeout(ctx, time.Second) // a frame that cannot be sent is replaced by a newer one
			acked, err := out.Put(limit, fmt.Append(nil, n))
			stop()
			s.mu.Lock()
			s.put, s.err = n, err
			s.mu.Unlock()
			if err == nil {
				wait.Go(func() {
					if <-acked == nil {
						s.mu.Lock()
						s.acked = max(s.acked, n)
						s.mu.Unlock()
					}
				})
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	wait.Go(func() {
		for {
			b, err := in.Next(ctx)
			if err != nil {
				return
			}
			n := 0
			_, _ = fmt.Sscan(string(b), &n)
			s.mu.Lock()
			s.got = max(s.got, n)
			s.mu.Unlock()
		}
	})
	await.True(t, "flowing", func() bool { return s.last() > 10 })
	return s
}

func (s *stream) last() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

// newer waits for a frame whose put began after the call. The put of frame s.put+1 may have begun before.
func (s *stream) newer(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	now := s.put
	s.mu.Unlock()
	await.True(t, "newer frames follow", func() bool { return s.last() > now+1 })
}

func TestClientsRecoverAfterHubRestart(t *testing.T) {
	t.Parallel()
	h := startHub(t, "robot", "pc")
	robot, pc := h.connectedClient("robot"), h.connectedClient("pc")
	s := begin(t, robot, pc)
	for range 2 {
		h.stop()
		await.True(t, "both know it", func() bool { return !robot.State().Connected && !pc.State().Connected })
		h.start()
		s.newer(t)
	}
}

func TestRemovedStreamIsRecreated(t *testing.T) {
	t.Parallel()
	h := startHub(t, "robot", "pc")
	s := begin(t, h.connectedClient("robot"), h.connectedClient("pc"))
	js, err := jetstream.New(h.owner)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := js.DeleteStream(await.Context(t), "robot,imu"); err != nil {
			t.Fatal(err)
		}
		s.newer(t)
	}
}

func TestRemovedConsumerIsRecreated(t *testing.T) {
	h := startHub(t, "robot", "pc")
	s := begin(t, h.connectedClient("robot"), h.connectedClient("pc"))
	js, err := jetstream.New(h.owner)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(await.Context(t), "robot,imu", "pc"); err != nil {
		t.Fatal(err)
	}
	s.newer(t)
}

func TestSilentConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	h := startHub(t, "robot", "pc")
	p := h.proxy()
	robot := h.connectedClient("robot", p.address())
	s := begin(t, robot, h.connectedClient("pc"))
	p.holdOld()
	s.newer(t)
	if !robot.State().Connected {
		t.Error("not connected")
	}
}

func TestRecoveredConnectionStays(t *testing.T) {
	t.Parallel()
	h := startHub(t, "robot", "pc")
	p := h.proxy()
	robot := h.connectedClient("robot", p.address())
	s := begin(t, robot, h.connectedClient("pc"))
	before, _ := robot.current()
	p.hold()
	await.True(t, "silent", func() bool { return robot.State().Silent > leastPatience })
	if _, err := robot.connected(); !errors.Is(err, ErrNotConnected) {
		t.Errorf("got %v, want ErrNotConnected of a silent connection", err)
	}
	p.each(func(c *proxied) { // only the first two connections, which are the old ones
		if c == p.pairs[0] || c == p.pairs[1] {
			c.up.set(true)
			c.down.set(true)
		}
	})
	s.newer(t)
	if now, _ := robot.current(); now != before {
		t.Error("got another connection, want the recovered one")
	}
}

func TestFramesPutDuringCutAreNotSentLater(t *testing.T) {
	t.Parallel()
	h := startHub(t, "robot", "pc")
	p := h.proxy()
	robot := h.connectedClient("robot", p.address())
	out := robot.Channel("robot", "imu")
	defer out.Close()
	putOne(t, out, "first")
	seen := h.watchFrames("robot", "imu")
	p.hold() // new connections get no answer either
	under, failed := 0, 0
	var words []<-chan error
	for failed < 3 { // like a robot that has not detected the cut
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		acked, err := out.Put(ctx, []byte("before"))
		cancel()
		if err != nil {
			failed++
			continue
		}
		under++
		words = append(words, acked)
	}
	if under > maxUnacked {
		t.Errorf("got %d frames under way without an acknowledgement, want at most %d", under, maxUnacked)
	}
	old, _ := robot.current()
	p.holdOld()
	await.True(t, "connected anew", func() bool { l, _ := robot.current(); return l != nil && l != old })
	putOne(t, out, "after")
	p.release()
	for _, word := range words {
		if err := <-word; !errors.Is(err, ErrNotConnected) && !errors.Is(err, errNoAck) {
			t.Errorf("got %v of a frame that was under way, want ErrNotConnected", err)
		}
	}
	putOne(t, out, "last")
	all := seen()
	if got := strings.Join(slices.Compact(all), " "); got != "after last" {
		t.Errorf("the hub got %q after the cut, want only what was put after it", got)
	}
}

// leaves checks that Run ends soon after its context.
func leaves(t *testing.T, c *Client, before func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	before()
	cancel()
	begun := time.Now()
	await.Receive(t, "the end of Run", ended)
	if took := time.Since(begun); took >= dialLimit && need.IsLong() {
		t.Errorf("Run ended after %v, want it before an attempt to connect would", took)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	h := startHub(t, "robot")
	t.Run("the hub is silent", func(t *testing.T) {
		p := h.proxy()
		c := h.newClient("robot", p.address())
		leaves(t, c, func() {
			h.connectedAgain(c)
			p.hold()
			await.True(t, "silent", func() bool { return c.State().Silent > leastPatience })
		})
	})
	t.Run("the hub reads nothing", func(t *testing.T) {
		p := h.proxy()
		p.brims.Store(true)
		c := h.newClient("robot", p.address())
		out := c.Channel("robot", "imu")
		defer out.Close()
		leaves(t, c, func() {
			h.connectedAgain(c)
			p.hold()
			for {
				limit, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
				_, err := out.Put(limit, make([]byte, 100_000))
				stop()
				if err != nil {
					return
				}
			}
		})
	})
	t.Run("the hub sends nothing after TLS", func(t *testing.T) {
		reached := make(chan struct{}, 100)
		at := h.pretender("", func(net.Conn) { reached <- struct{}{} })
		leaves(t, h.newClient("robot", at), func() { <-reached })
	})
}
