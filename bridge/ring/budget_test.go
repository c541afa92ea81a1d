package ring

import (
	"errors"
	"testing"
)

func TestMemoryBudgetRefusesLargestChannel(t *testing.T) {
	evicted := make(chan string, 10)
	m := NewBudget(100)
	taker := func(name string) *Share { return m.Share(func() { evicted <- name }) }
	camera, plan := taker("camera"), taker("map")
	for _, err := range []error{camera.Take(40), plan.Take(60)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := plan.Take(5); !errors.Is(err, ErrNoMemory) {
		t.Errorf("the channel that would hold most: got %v, want %v", err, ErrNoMemory)
	}
	if err := camera.Take(5); err != ErrMakingRoom {
		t.Errorf("another channel: got %v, want %v", err, ErrMakingRoom)
	}
	if name := <-evicted; name != "map" {
		t.Errorf("%s was evicted, want map", name)
	}
	if err := plan.Take(1); !errors.Is(err, ErrNoMemory) {
		t.Errorf("evicted, and not gone: got %v, want %v", err, ErrNoMemory)
	}
	plan.Give(60)
	for _, s := range []*Share{camera, plan} {
		if err := s.Take(5); err != nil {
			t.Errorf("got %v, want room again", err)
		}
	}
	if err := camera.Reserve(51); !errors.Is(err, ErrNoMemory) {
		t.Errorf("mode every: got %v, want no more than half", err)
	}
}

// The memory of a stream cannot be freed while its reader does not read.
func TestReservedMemoryDoesNotKeepAChannelRefused(t *testing.T) {
	m := NewBudget(100)
	evicted := make(chan string, 10)
	taker := func(name string) *Share { return m.Share(func() { evicted <- name }) }
	camera, imu := taker("camera"), taker("imu")
	for _, err := range []error{camera.Reserve(20), camera.Take(60), imu.Take(10)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := imu.Take(20); err != ErrMakingRoom {
		t.Fatalf("got %v, want %v", err, ErrMakingRoom)
	}
	if name := <-evicted; name != "camera" {
		t.Fatalf("%s was evicted", name)
	}
	camera.Give(60)
	if err := camera.Take(30); err != nil {
		t.Errorf("with room again: %v", err)
	}
	camera.Give(30)
	if err := imu.Take(75); !errors.Is(err, ErrNoMemory) {
		t.Errorf("without memory to free: got %v, want %v", err, ErrNoMemory)
	}
}
