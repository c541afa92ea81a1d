package hub

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"achbridge/testnet/await"
)

// hostsOf returns a function that lists the other hosts that a client knows.
func hostsOf(t *testing.T, c *Client) func() string {
	t.Helper()
	var mu sync.Mutex
	var known []string
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Hosts(ctx, func(hosts []string) {
			mu.Lock()
			defer mu.Unlock()
			known = slices.Clone(hosts)
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(known, " ")
	}
}

func TestHostsDiscoverEachOther(t *testing.T) {
	t.Parallel()
	h := startHub(t, "robot", "pc", "krang.lan")
	robot := hostsOf(t, h.connectedClient("robot"))
	pc := hostsOf(t, h.connectedClient("pc"))
	ctx, leave := context.WithCancel(context.Background())
	krang := h.newClient("krang.lan", h.address())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = krang.Run(ctx)
	}()
	third := hostsOf(t, krang)
	for _, c := range []struct {
		known func() string
		want  string
	}{{robot, "krang.lan pc"}, {pc, "krang.lan robot"}, {third, "pc robot"}} {
		await.True(t, "known: "+c.want, func() bool { return c.known() == c.want })
	}
	leave()
	<-done
	await.True(t, "gone", func() bool { return robot() == "pc" })
}

func TestSilentHostsAreRemoved(t *testing.T) {
	h := startHub(t, "robot")
	robot := h.connectedClient("robot")
	known := hostsOf(t, robot)
	if err := h.owner.Publish(hereOf("pc"), here{Incarnation: [8]byte{1}}.append(nil)); err != nil {
		t.Fatal(err)
	}
	await.True(t, "known", func() bool { return known() == "pc" })
	robot.presence.forget(time.Now().Add(time.Second))
	await.True(t, "forgotten", func() bool { return known() == "" })
}

func TestByeOfEarlierIncarnationIsIgnored(t *testing.T) {
	h := startHub(t, "robot")
	robot := h.connectedClient("robot")
	known := hostsOf(t, robot)
	for _, one := range []here{{Incarnation: [8]byte{2}}, {Incarnation: [8]byte{1}, Gone: true}} {
		if err := h.owner.Publish(hereOf("pc"), one.append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	_ = h.owner.Publish(hereOf("mac"), here{}.append(nil))
	await.True(t, "known", func() bool { return known() == "mac pc" })
}

func TestForgedHubPeersAreLimited(t *testing.T) {
	var c Client
	c.presence.init(&c)
	p := &c.presence
	for n := range maxHosts + 500 {
		p.take(&nats.Msg{Subject: hereOf(fmt.Sprint("h", n)), Data: here{}.append(nil)})
	}
	if n := len(p.hosts); n != maxHosts {
		t.Errorf("got %d hosts, want %d", n, maxHosts)
	}
	p.forget(time.Now().Add(time.Second))
	for _, bad := range [][]byte{nil, {1}, make([]byte, hereSize), make([]byte, 4096)} {
		p.take(&nats.Msg{Subject: hereOf("bad"), Data: bad})
	}
	p.take(&nats.Msg{Subject: FrameSubject("ghost", "imu"), Data: here{}.append(nil)}) // a dishonest server may deliver this message here
	if len(p.hosts) != 0 {
		t.Errorf("got %v, want no host without a heartbeat", p.hosts)
	}
}
