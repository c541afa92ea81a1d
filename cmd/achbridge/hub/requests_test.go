package hub

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"achbridge/bridge/hub"
)

func TestRequestsOfHostAreBounded(t *testing.T) {
	r, now := &requests{}, time.Hour
	for count := range requestBurst {
		if !r.admit(now) {
			t.Fatalf("admit = false after %d requests, want true", count)
		}
	}
	for range 2 {
		if r.admit(now) {
			t.Error("admit = true after all requests of a burst, want false")
		}
		now += requestEvery
		if !r.admit(now) {
			t.Error("admit = false after requestEvery, want true")
		}
	}
	for count := range maxRequests + 1 {
		_, err := r.add(&nats.Msg{})
		if want := count == maxRequests; errors.Is(err, errBusy) != want {
			t.Fatalf("add = %v while %d requests wait", err, count)
		}
	}
}

func TestOneGoroutineWorksForHost(t *testing.T) {
	r := &requests{}
	for _, want := range []bool{true, false} {
		if begin, err := r.add(&nats.Msg{}); begin != want || err != nil {
			t.Errorf("add = %v, %v, want %v", begin, err, want)
		}
	}
	for range 3 { // for two requests, and once when none waits
		r.next()
	}
	if begin, err := r.add(&nats.Msg{}); !begin || err != nil {
		t.Errorf("add after the end = %v, %v, want a goroutine", begin, err)
	}
}

func TestHubAnswersInInboxOfHostAlone(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	for subject, reply := range map[string]string{hub.MakeOf("pc"): hub.FrameSubject("robot", "imu"), hub.ReadOf("pc"): hub.InboxPrefix("robot") + ".x", hub.MakeOf("ghost"): hub.InboxPrefix("ghost") + ".x"} {
		w.s.maker.take(&nats.Msg{Subject: subject, Reply: reply, Data: []byte("imu")})
	}
	w.s.maker.mu.Lock()
	defer w.s.maker.mu.Unlock()
	if len(w.s.maker.hosts) > 0 {
		t.Errorf("got requests of %d hosts, want none", len(w.s.maker.hosts))
	}
}
