package localach_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"achbridge/localach"
	"achbridge/testnet/await"
)

// These tests reproduce problems from the field (ach-abi.md) with real processes.

// A program that puts only one frame, such as a map, is restarted. The channel then has as many frames as before.
func TestReinitialisationIsFoundDespiteSameFrameCount(t *testing.T) {
	d := privateDir(t)
	c := createIn(t, d, "map", 16, 64)
	w := startWatcher(t)
	var newest atomic.Uint64
	defer w.Watch(c, func(seq uint64) { newest.Store(seq) }).Close()
	put(t, c, 1)
	await.True(t, "the frame noticed", func() bool { return newest.Load() == 1 })
	runPeer(t, pathOf(d, "map"), "create", "16", "64", "in-place")
	await.True(t, "the empty channel noticed", func() bool { return newest.Load() == 0 })
	runPeer(t, pathOf(d, "map"), "put", "1", "64", "0", "1")
	if err := c.Check(); !errors.Is(err, localach.ErrReinitialised) {
		t.Errorf("got %v, want %v", err, localach.ErrReinitialised)
	}
}

// The file was half created in between, and the handle is closed.
func TestHalfCreatedChannelReopens(t *testing.T) {
	d := privateDir(t)
	c := createIn(t, d, "map", 16, 64)
	c.Close()
	runPeer(t, pathOf(d, "map"), "create", "16", "64", "in-place")
	anew, err := c.ReopenReinitialised()
	if err != nil {
		t.Fatal(err)
	}
	defer anew.Close()
	if anew.Epoch() == c.Epoch() {
		t.Error("it has the epoch of its life before")
	}
}

// libach can create but not open 16 x 212. The creator may still use the channel, and so may we.
func TestUnusableGeometryOpens(t *testing.T) {
	d := privateDir(t)
	runPeer(t, pathOf(d, "imu"), "create", "16", "212")
	c, err := d.Open("imu")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Geometry().Check(); !errors.Is(err, localach.ErrGeometry) {
		t.Errorf("check of %v: got %v, want ErrGeometry", c.Geometry(), err)
	}
	if _, err := d.Create("imu2", localach.CreateConfig{Geometry: c.Geometry()}); !errors.Is(err, localach.ErrGeometry) {
		t.Errorf("create: got %v, want ErrGeometry", err)
	}
	runPeer(t, pathOf(d, "imu"), "put", "50", "64-212", "0", "1")
	buf := make([]byte, 212)
	n, err := c.Reader().Last(buf)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := checkFrame(buf[:n]); err != nil || s.count != 50 {
		t.Errorf("got frame %d, %v, want 50", s.count, err)
	}
}
