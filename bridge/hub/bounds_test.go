package hub

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

func TestASlowReaderGetsTheNewestAndAlwaysAWholeOne(t *testing.T) {
	h := startHub(t, "robot", "pc")
	robot, pc := h.connectedClient("robot"), h.connectedClient("pc")
	out, in := robot.Channel("robot", "camera"), pc.Channel("robot", "camera")
	defer out.Close()
	defer in.Close()
	frame := func(n int) string { return fmt.Sprintf("%030000d", n) }
	put := 0
	last := 0
	for range 5 {
		for range 40 { // far more than the reader has pulls for
			put++
			putOne(t, out, frame(put))
		}
		for range 2 * maxPulls { // those that had been asked for come first
			if last == put {
				break
			}
			got := nextOne(t, in)
			n, _ := strconv.Atoi(got)
			if got != frame(n) {
				t.Fatalf("got a frame of %d bytes that is none of those put", len(got))
			}
			if n <= last {
				t.Errorf("got frame %d after %d", n, last)
			}
			last = n
		}
		if last != put {
			t.Errorf("got frame %d, want %d, the newest", last, put)
		}
	}
}

func TestAtMostTwoFramesAreNotAcknowledged(t *testing.T) {
	h := startHub(t, "robot")
	p := h.proxy()
	out := h.connectedClient("robot", p.address()).Channel("robot", "imu")
	defer out.Close()
	putOne(t, out, "first")
	const size = 4000
	p.each(func(c *proxied) { c.down.set(false) })
	before := p.up.Load()
	for n := range 5 {
		_, err := out.Put(limited(t, 50*time.Millisecond), make([]byte, size))
		if (err == nil) != (n < maxUnacked) {
			t.Errorf("put %d: got %v", n, err)
		}
	}
	time.Sleep(50 * time.Millisecond)
	if sent := p.up.Load() - before; sent < maxUnacked*size || sent > maxUnacked*(size+500) {
		t.Errorf("got %d bytes sent, want %d frames of %d", sent, maxUnacked, size)
	}
	p.release()
	eventually(t, 5*time.Second, "acknowledged", func() bool {
		_, err := out.Put(limited(t, 50*time.Millisecond), make([]byte, size))
		return err == nil
	})
}

func TestAtMostThreeFramesAreOnTheirWayToAReader(t *testing.T) {
	h := startHub(t, "robot", "pc")
	p := h.proxy()
	out := h.connectedClient("robot").Channel("robot", "imu")
	in := h.connectedClient("pc", p.address()).Channel("robot", "imu")
	defer out.Close()
	defer in.Close()
	const size = 4000
	put := func() { putOne(t, out, fmt.Sprintf("%0*d", size, 1)) }
	put()
	nextOne(t, in) // has sent three pulls, and does not take what they bring
	time.Sleep(50 * time.Millisecond)
	before := p.down.Load()
	for range 100 {
		put()
	}
	time.Sleep(100 * time.Millisecond)
	if came := p.down.Load() - before; came < maxPulls*size || came > maxPulls*(size+500) {
		t.Errorf("got %d bytes to the reader, want %d frames of %d", came, maxPulls, size)
	}
}

// TestManyReadersCostTheRobotAsMuchAsOne counts the bytes of the robot's connections.
func TestManyReadersCostTheRobotAsMuchAsOne(t *testing.T) {
	longRun(t)
	const most = 100
	names := []string{"robot"}
	for n := range most + 1 {
		names = append(names, fmt.Sprint("pc", n))
	}
	h := startHub(t, names...)
	p := h.proxy()
	out := h.connectedClient("robot", p.address()).Channel("robot", "imu")
	defer out.Close()
	putOne(t, out, "first")
	one, _ := h.costOf(p, out, names[1:2])
	many, least := h.costOf(p, out, names[2:])
	t.Logf("%d frames: %d bytes for one reader, %d for %d (%.1f %% more); the slowest got %d", costFrames, one, many, most, 100*float64(many-one)/float64(one), least)
	if float64(many) > 1.05*float64(one) {
		t.Errorf("got %d bytes for %d readers, want at most 5 %% more than %d", many, most, one)
	}
	if least < costFrames/2 {
		t.Errorf("the slowest reader got %d of %d frames", least, costFrames)
	}
}

// costFrames is how many frames costOf puts, 20 a second.
const costFrames = 20

// costOf puts frames for these readers, and returns what that costs the robot and how many frames the
// slowest reader got.
func (h *testHub) costOf(p *proxy, out *Channel, readers []string) (bytes int64, least int) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	counts := make([]int, len(readers))
	clients := make([]*Client, len(readers))
	for n, name := range readers {
		clients[n] = h.client(name)
	}
	var begun sync.WaitGroup
	for n, c := range clients {
		h.connectedAgain(c)
		begun.Add(1)
		wait.Go(func() {
			in := c.Channel("robot", "imu")
			defer in.Close()
			_, err := in.Next(ctx) // what is there already
			begun.Done()
			for ; err == nil; counts[n]++ {
				_, err = in.Next(ctx)
			}
			counts[n]--
		})
	}
	begun.Wait()
	time.Sleep(1500 * time.Millisecond) // all know of each other
	before := p.up.Load()
	for n := range costFrames {
		putOne(h.t, out, fmt.Sprintf("%01000d", n))
		time.Sleep(50 * time.Millisecond)
	}
	bytes = p.up.Load() - before
	cancel()
	wait.Wait()
	return bytes, slices.Min(counts)
}

// A receiver delays the acknowledgement of a segment that is not full by 40 ms. A window that lets nothing follow
// it would make each frame wait for that.
func TestAFrameDoesNotWaitForADelayedAcknowledgement(t *testing.T) {
	h := startHub(t, "robot")
	out := h.connectedClient("robot").Channel("robot", "imu")
	defer out.Close()
	for _, size := range []int{1000, 4000, 5000} {
		putOne(t, out, fmt.Sprintf("%0*d", size, 1))
		begun := time.Now()
		const frames = 20
		for range frames {
			putOne(t, out, fmt.Sprintf("%0*d", size, 1))
		}
		if each := time.Since(begun) / frames; each > 20*time.Millisecond {
			t.Errorf("frames of %d bytes: got %v each, want well under 40 ms", size, each)
		}
	}
}
