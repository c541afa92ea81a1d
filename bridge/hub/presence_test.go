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
)

// hostsOf follows what a client knows of the others.
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

func TestHostsHearOfEachOther(t *testing.T) {
	h := startHub(t, "robot", "pc", "krang.lan")
	robot := hostsOf(t, h.connectedClient("robot"))
	pc := hostsOf(t, h.connectedClient("pc"))
	ctx, leave := context.WithCancel(context.Background())
	krang, err := New(Config{Credentials: h.hosts["krang.lan"], Hub: h.address()})
	if err != nil {
		t.Fatal(err)
	}
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
		eventually(t, 3*time.Second, "known: "+c.want, func() bool { return c.known() == c.want })
	}
	leave()
	<-done
	eventually(t, time.Second, "gone", func() bool { return robot() == "pc" })
}

func TestHostsThatAreNotHeardAreForgotten(t *testing.T) {
	h := startHub(t, "robot")
	robot := h.connectedClient("robot")
	known := hostsOf(t, robot)
	if err := h.owner.Publish(hereOf("pc"), here{Life: [8]byte{1}}.append(nil)); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Second, "known", func() bool { return known() == "pc" })
	robot.presence.forget(time.Now().Add(time.Second))
	eventually(t, time.Second, "forgotten", func() bool { return known() == "" })
}

func TestAGoodbyeOfAnEarlierLifeChangesNothing(t *testing.T) {
	h := startHub(t, "robot")
	robot := h.connectedClient("robot")
	known := hostsOf(t, robot)
	for _, one := range []here{{Life: [8]byte{2}}, {Life: [8]byte{1}, Gone: true}} {
		if err := h.owner.Publish(hereOf("pc"), one.append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	_ = h.owner.Publish(hereOf("mac"), here{}.append(nil))
	eventually(t, time.Second, "known", func() bool { return known() == "mac pc" })
}

func TestAHubThatInventsHostsIsBounded(t *testing.T) {
	h := startHub(t, "robot")
	robot := h.connectedClient("robot")
	for n := range maxHosts + 500 {
		if err := h.owner.Publish(hereOf(fmt.Sprint("h", n)), here{}.append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range [][]byte{nil, {1}, make([]byte, hereSize), make([]byte, 4096)} {
		_ = h.owner.Publish(hereOf("bad"), bad)
	}
	_ = h.owner.Flush()
	l, _ := robot.current()
	_ = l.small.nc.FlushTimeout(5 * time.Second)
	robot.presence.mu.Lock()
	defer robot.presence.mu.Unlock()
	if n := len(robot.presence.hosts); n > maxHosts {
		t.Errorf("got %d hosts, want at most %d", n, maxHosts)
	}
	if _, there := robot.presence.hosts["bad"]; there {
		t.Error("got a host whose presence nobody can read")
	}
}

// neighbour is what is known of a host.
func (p *presence) neighbour(host string) (neighbour, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, known := p.hosts[host]
	return n, known
}

// A server may be led to answer where hosts say that they are here, or to deliver frames there.
func TestOnlyWhatAHostSaysOfItselfIsItsPresence(t *testing.T) {
	if h, err := parseHere([]byte("the request names no channel")); err == nil {
		t.Errorf("a text was taken for %+v", h)
	}
	h := startHub(t, "robot", "pc")
	pc := h.connectedClient("pc")
	pc.presence.take(&nats.Msg{Subject: FrameSubject("ghost", "imu"), Data: here{}.append(nil)})
	pc.presence.mu.Lock()
	defer pc.presence.mu.Unlock()
	if _, there := pc.presence.hosts["ghost"]; there {
		t.Error("a frame made a host")
	}
}
