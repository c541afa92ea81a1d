package hub

import (
	"context"
	"fmt"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

func TestAtMostTwoFramesAreUnacknowledged(t *testing.T) {
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

func TestAtMostThreeFramesAreInFlightToReader(t *testing.T) {
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
	nextOne(t, in) // sends three fetches, and does not handle their replies
	l, _ := pc.current()
	flush := func() { // waits until the messages sent by the hub so far have arrived
		for _, h := range []*hubConn{l.small, l.large} {
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
	await.True(t, "three frames came", func() bool { return came() >= maxFetches*size })
	flush()
	if got := came(); got > maxFetches*(size+500) {
		t.Errorf("got %d bytes to the reader, want %d frames of %d", got, maxFetches, size)
	}
}

// A receiver delays the acknowledgement of a partial segment by 40 ms. With a window that lets no
// segment follow it, each frame would wait for that.
func TestFrameDoesNotWaitForDelayedTCPAck(t *testing.T) {
	need.Long(t) // measures times
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
