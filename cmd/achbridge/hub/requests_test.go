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
	add := func(want error) {
		t.Helper()
		if _, err := r.add(&nats.Msg{}, now); !errors.Is(err, want) {
			t.Fatalf("add = %v, want %v", err, want)
		}
	}
	for range maxRequests {
		add(nil)
	}
	add(errBusy)
	for count := maxRequests; count < requestBurst; count++ {
		if r.next() == nil {
			t.Fatal("next = nil, want a request")
		}
		add(nil)
	}
	for r.next() != nil {
	}
	add(errBusy)
	now += requestEvery
	add(nil)
	add(errBusy)
	now += time.Hour
	if _, err := r.add(&nats.Msg{Data: make([]byte, maxRequest+1)}, now); !errors.Is(err, errTooLong) {
		t.Errorf("add of a long one = %v, want %v", err, errTooLong)
	}
	if len(r.waiting) != 1 {
		t.Errorf("%d requests wait, want 1", len(r.waiting))
	}
}

func TestOneGoroutineWorksForHost(t *testing.T) {
	r := &requests{}
	for _, want := range []bool{true, false} {
		if begin, err := r.add(&nats.Msg{}, 0); begin != want || err != nil {
			t.Errorf("add = %v, %v, want %v", begin, err, want)
		}
	}
	for range 3 { // for two requests, and once when none waits
		r.next()
	}
	if begin, err := r.add(&nats.Msg{}, 0); !begin || err != nil {
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
