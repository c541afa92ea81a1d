package hub

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

func TestAtMostTwoFramesAreNotAcknowledged(t *testing.T) {
	h := startHub(t, "robot")
	p := h.proxy()
	out := h.connectedClient("robot", p.address()).Channel("robot", "imu")
	defer out.Close()
	putOne(t, out, "first")
	const size = 4000
	p.holdNew()
	p.each(func(c *proxied) { c.down.set(false) })
	sent := p.meter(func(c *proxied) int64 { return c.sent.Load() })
	left := 0
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := out.Put(ctx, make([]byte, size)); err == nil {
			left++
		}
		cancel()
	}
	if got := sent(); left > maxUnacked || got > maxUnacked*(size+500) {
		t.Errorf("got %d frames and %d bytes sent, want at most %d frames of %d", left, got, maxUnacked, size)
	}
	p.release()
	putOne(t, out, "last")
}

func TestAtMostThreeFramesAreOnTheirWayToAReader(t *testing.T) {
	h := startHub(t, "robot", "pc")
	p := h.proxy()
	out := h.connectedClient("robot").Channel("robot", "imu")
	pc := h.connectedClient("pc", p.address())
	in := pc.Channel("robot", "imu")
	defer out.Close()
	defer in.Close()
	const size = 4000
	put := func() { putOne(t, out, fmt.Sprintf("%0*d", size, 1)) }
	put()
	nextOne(t, in) // has sent three pulls, and does not take what they bring
	l, _ := pc.current()
	flush := func() { // what the hub has sent by now has come
		for _, h := range []*half{l.small, l.large} {
			if err := h.nc.FlushTimeout(await.Limit); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.holdNew()
	flush()
	came := p.meter(func(c *proxied) int64 { return c.received.Load() })
	for range 100 {
		put()
	}
	await.True(t, "three frames came", func() bool { return came() >= maxPulls*size })
	flush()
	if got := came(); got > maxPulls*(size+500) {
		t.Errorf("got %d bytes to the reader, want %d frames of %d", got, maxPulls, size)
	}
}

// TestManyReadersCostTheRobotAsMuchAsOne counts the bytes of the robot's connections.
func TestManyReadersCostTheRobotAsMuchAsOne(t *testing.T) {
	need.Long(t)
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
	sent := p.meter(func(c *proxied) int64 { return c.sent.Load() })
	for n := range costFrames {
		putOne(h.t, out, fmt.Sprintf("%01000d", n))
		time.Sleep(50 * time.Millisecond)
	}
	bytes = sent()
	cancel()
	wait.Wait()
	return bytes, slices.Min(counts)
}

// A receiver delays the acknowledgement of a segment that is not full by 40 ms. A window that lets nothing follow
// it would make each frame wait for that.
func TestAFrameDoesNotWaitForADelayedAcknowledgement(t *testing.T) {
	need.Long(t) // it measures
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
