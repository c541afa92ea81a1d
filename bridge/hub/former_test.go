package hub

import (
	"testing"

	"achbridge/testnet/await"
)

// The hub sends frames to a connection until it detects that the connection is gone. It sends these frames again over
// the next connection.
func TestFrameSentToFormerConnectionIsRedelivered(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) *testHub{
		"hub":         func(t *testing.T) *testHub { return startHub(t, "robot", "pc") },
		"nats-server": func(t *testing.T) *testHub { return startDebian(t, true, "robot", "pc") },
	} {
		t.Run(name, func(t *testing.T) { newestComesAgain(t, start(t)) })
	}
}

func newestComesAgain(t *testing.T, h *testHub) {
	out := h.connectedClient("robot").Channel("robot", "imu")
	former := h.connectedClient("pc").Channel("robot", "imu")
	put := func(frame string) {
		t.Helper()
		if _, err := out.Put(await.Context(t), []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	put("first")
	if got, err := former.Next(await.Context(t)); string(got) != "first" {
		t.Fatalf("Next = %q and %v, want first", got, err)
	}
	put("second")
	await.True(t, "the hub has sent the second frame", func() bool {
		former.consumer.mu.Lock()
		defer former.consumer.mu.Unlock()
		return len(former.consumer.got) > 0
	})
	again := h.connectedClient("pc").Channel("robot", "imu")
	if got, err := again.Next(await.Context(t)); string(got) != "second" {
		t.Errorf("Next of another connection = %q and %v, want second", got, err)
	}
}
