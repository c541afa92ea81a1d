package localach

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"achbridge/testnet/await"
)

// Inotify is not available when the watch begins, and available later.
func TestWatchPollsWithoutInotify(t *testing.T) {
	t.Parallel()
	d := tempDir(t)
	create(t, d, Geometry{4, 16})
	events := make(chan Event, 100)
	w := newDirWatch(d, func(e Event) { events <- e })
	real := w.open
	var usedUp atomic.Bool
	usedUp.Store(true)
	w.open = func() (*fsnotify.Watcher, error) {
		if usedUp.Load() {
			w.notifyTriedAt = w.notifyTriedAt.Add(-notifyAgain) // makes the next poll try again
			return nil, unix.EMFILE
		}
		return real()
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.watch(ctx) }()
	expect := func(want Event) {
		t.Helper()
		got := await.Receive(t, want.Kind.String()+" "+want.Name, events)
		if got.Kind != want.Kind || got.Name != want.Name || !errors.Is(got.Err, want.Err) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
	expect(Event{Kind: Polling, Err: unix.EMFILE})
	expect(Event{Kind: Appeared, Name: "imu"})
	makeChannel := func(name string) {
		ch, err := d.Create(name, CreateConfig{})
		if err != nil {
			t.Fatal(err)
		}
		ch.Close()
	}
	makeChannel("arm")
	expect(Event{Kind: Appeared, Name: "arm"})
	if err := d.Unlink("imu"); err != nil {
		t.Fatal(err)
	}
	expect(Event{Kind: Vanished, Name: "imu"})
	ch, err := d.Create("arm", CreateConfig{Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	ch.Close()
	expect(Event{Kind: Replaced, Name: "arm"})

	usedUp.Store(false)
	expect(Event{Kind: Notified})
	makeChannel("leg")
	expect(Event{Kind: Appeared, Name: "leg"})
	cancel()
	if err := await.Receive(t, "end of the watch", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("watch = %v, want context.Canceled", err)
	}
}
