package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// flow of frames: robot puts the number of each frame, over and over, and pc reads.
type stream struct {
	mu       sync.Mutex
	put, got int
	acked    int
	err      error
}

// begin runs until the test ends.
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
			limit, stop := context.WithTimeout(ctx, time.Second)
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
	eventually(t, 5*time.Second, "flowing", func() bool { return s.last() > 10 })
	return s
}

func (s *stream) last() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

// newer waits until a frame comes that was put from now on.
func (s *stream) newer(t *testing.T, most time.Duration) time.Duration {
	t.Helper()
	s.mu.Lock()
	now := s.put
	s.mu.Unlock()
	begun := time.Now()
	eventually(t, most, "followed by newer frames", func() bool { return s.last() > now })
	return time.Since(begun)
}

func TestAllFollowsWhenTheHubStartsAgain(t *testing.T) {
	h := startHub(t, "robot", "pc")
	s := begin(t, h.connectedClient("robot"), h.connectedClient("pc"))
	for range 3 {
		h.stop()
		time.Sleep(300 * time.Millisecond)
		h.start()
		t.Log("newer frames after", s.newer(t, 2*time.Second))
	}
}

func TestAllFollowsWhenTheHubWasGoneForLong(t *testing.T) {
	longRun(t)
	h := startHub(t, "robot", "pc")
	s := begin(t, h.connectedClient("robot"), h.connectedClient("pc"))
	h.stop()
	time.Sleep(3 * time.Second)
	h.start()
	t.Log("newer frames after", s.newer(t, 2*time.Second))
}

func TestAStreamThatWasRemovedIsMadeAnew(t *testing.T) {
	h := startHub(t, "robot", "pc")
	s := begin(t, h.connectedClient("robot"), h.connectedClient("pc"))
	js, err := jetstream.New(h.owner)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := js.DeleteStream(limited(t, 5*time.Second), "robot,imu"); err != nil {
			t.Fatal(err)
		}
		t.Log("newer frames after", s.newer(t, 2*time.Second))
	}
}

func TestAConsumerThatWasRemovedIsMadeAnew(t *testing.T) {
	h := startHub(t, "robot", "pc")
	s := begin(t, h.connectedClient("robot"), h.connectedClient("pc"))
	js, err := jetstream.New(h.owner)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(limited(t, 5*time.Second), "robot,imu", "pc"); err != nil {
		t.Fatal(err)
	}
	t.Log("newer frames after", s.newer(t, 2*time.Second))
}

func TestASilentConnectionIsReplaced(t *testing.T) {
	h := startHub(t, "robot", "pc")
	p := h.proxy()
	robot := h.connectedClient("robot", p.address())
	s := begin(t, robot, h.connectedClient("pc"))
	p.holdOld()
	took := s.newer(t, 3*time.Second)
	t.Log("newer frames after", took)
	if !robot.State().Connected {
		t.Error("not connected")
	}
}

func TestAConnectionThatIsHeardAgainStays(t *testing.T) {
	h := startHub(t, "robot", "pc")
	p := h.proxy()
	robot := h.connectedClient("robot", p.address())
	s := begin(t, robot, h.connectedClient("pc"))
	before, _ := robot.current()
	p.hold()
	eventually(t, 3*time.Second, "silent", func() bool { return robot.State().Silent > leastPatience })
	if _, err := robot.connected(); !errors.Is(err, ErrNotConnected) {
		t.Errorf("got %v, want ErrNotConnected of a silent connection", err)
	}
	p.each(func(c *proxied) { // only the first two connections, which are the old ones
		if c == p.pairs[0] || c == p.pairs[1] {
			c.up.set(true)
			c.down.set(true)
		}
	})
	t.Log("newer frames after", s.newer(t, 2*time.Second))
	if now, _ := robot.current(); now != before {
		t.Error("another connection, want the one that was heard again")
	}
}

func TestNothingIsSentLaterThatWasPutBefore(t *testing.T) {
	h := startHub(t, "robot", "pc")
	p := h.proxy()
	robot := h.connectedClient("robot", p.address())
	out := robot.Channel("robot", "imu")
	defer out.Close()
	putOne(t, out, "first")
	seen := h.watchFrames("robot", "imu")
	p.holdOld()
	under, failed := 0, 0
	var words []<-chan error
	for failed < 3 { // what a robot does that does not know of the cut
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
	eventually(t, 5*time.Second, "connected anew", func() bool { l, _ := robot.current(); return l != nil && l != old })
	putOne(t, out, "after")
	p.release()
	for _, word := range words {
		if err := <-word; !errors.Is(err, ErrNotConnected) {
			t.Errorf("got %v of a frame that was under way, want ErrNotConnected", err)
		}
	}
	putOne(t, out, "last")
	all := seen()
	if got := strings.Join(all, " "); got != "after last" {
		t.Errorf("the hub got %q after the cut, want only what was put after it", got)
	}
}

func TestWithoutAConnectionAPutFailsAtOnce(t *testing.T) {
	h := startHub(t, "robot")
	robot := h.connectedClient("robot")
	out := robot.Channel("robot", "imu")
	defer out.Close()
	h.stop()
	eventually(t, 5*time.Second, "disconnected", func() bool { return !robot.State().Connected })
	begun := time.Now()
	for _, call := range []func() error{
		func() error { _, err := out.Put(context.Background(), []byte("x")); return err },
		func() error { return out.Room(context.Background(), 1) },
		func() error { _, err := robot.Dial(context.Background(), "pc"); return err },
	} {
		if err := call(); !errors.Is(err, ErrNotConnected) {
			t.Errorf("got %v, want ErrNotConnected", err)
		}
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %v, want it at once", took)
	}
}

// leaves checks that Run ends soon after its context.
func leaves(t *testing.T, c *Client, before func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	before()
	cancel()
	select {
	case <-ended:
	case <-time.After(2 * time.Second):
		t.Error("Run goes on")
	}
}

func TestRunEndsWithItsContextWhateverTheHubDoes(t *testing.T) {
	h := startHub(t, "robot")
	t.Run("it is silent", func(t *testing.T) {
		p := h.proxy()
		c := h.newClient("robot", p.address())
		leaves(t, c, func() {
			h.connectedAgain(c)
			p.hold()
			eventually(t, 3*time.Second, "silent", func() bool { return c.State().Silent > leastPatience })
		})
	})
	t.Run("it takes nothing", func(t *testing.T) {
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
	t.Run("it says nothing after TLS", func(t *testing.T) {
		reached := make(chan struct{}, 100)
		at := h.pretender("", func(net.Conn) { reached <- struct{}{} })
		leaves(t, h.newClient("robot", at), func() { <-reached })
	})
}
