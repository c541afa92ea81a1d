package hub

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"achbridge/bridge/hub"
	"achbridge/testnet/await"
)

func TestRequestsOfHostAreLimited(t *testing.T) {
	r := newRequests()
	for count := range maxRequests + 1 {
		_, err := r.add(&nats.Msg{})
		if want := count == maxRequests; errors.Is(err, errBusy) != want {
			t.Fatalf("add while %d requests wait: got %v", count, err)
		}
	}
}

// The server has no limit for fetches that it has received but not processed.
func TestFetchesOfHostAreRateLimited(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	pc := w.connect("pc")
	const surplus, pull = 2000, "$JS.API.CONSUMER.MSG.NEXT.robot,imu.pc"
	began := time.Now()
	for range pullBurst + surplus {
		if err := pc.PublishRequest(pull, "_INBOX.pc.x", []byte(hub.FetchBody)); err != nil {
			t.Fatal(err)
		}
	}
	if err := pc.FlushTimeout(await.Limit); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < surplus*pullEvery {
		t.Errorf("the hub forwarded %d fetches in %v, want at least %v", pullBurst+surplus, took, surplus*pullEvery)
	}
}

func TestHostHasOneRequestGoroutine(t *testing.T) {
	r := newRequests()
	for _, want := range []bool{true, false} {
		if begin, err := r.add(&nats.Msg{}); begin != want || err != nil {
			t.Errorf("add: got %v, %v, want %v", begin, err, want)
		}
	}
	for range 3 { // twice with a request, and once without
		r.next()
	}
	if begin, err := r.add(&nats.Msg{}); !begin || err != nil {
		t.Errorf("add after the goroutine has ended: got %v, %v, want a new goroutine", begin, err)
	}
}

func TestHubAnswersOnlyInHostInbox(t *testing.T) {
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
