package bridge

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/transport"
	"achbridge/bridge/transport/session"
	"achbridge/wire"
)

// answers makes h accept every link like a node of another implementation. welcome serves one
// session.
func (h *host) answers(welcome func(s *session.Session)) {
	h.w.t.Helper()
	conn, err := h.net.Listen(port)
	if err != nil {
		h.w.t.Fatal(err)
	}
	end, err := transport.Listen(conn, transport.Config{Key: h.w.key, Node: h.id, Host: h.name})
	if err != nil {
		h.w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	h.w.t.Cleanup(func() {
		cancel()
		end.Close()
		work.Wait()
	})
	work.Go(func() {
		for {
			s, err := end.Accept(ctx)
			if err != nil {
				return
			}
			work.Go(func() { welcome(s) })
		}
	})
}

func say(s *session.Session, m wire.Message) {
	b, err := wire.AppendMessage(nil, m)
	if err == nil {
		s.Control().Write(b)
	}
}

func TestClosingPeerIsDialledWithBackOff(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.answers(func(s *session.Session) {
			time.Sleep(50 * time.Millisecond)
			s.Close("not today")
		})
		pc.run(Config{}, robot)
		time.Sleep(20 * time.Second)
		if n := strings.Count(pc.log.String(), "link up"); n < 3 || n > 15 {
			t.Errorf("got %d links in 20s, want some, but with a back-off", n)
		}
	})
}

func TestHelloRefusalReasonReachesBothHosts(t *testing.T) {
	for what, welcome := range map[string]struct {
		hello wire.Message
		want  string
	}{
		"version": {wire.Hello{Version: wire.Version + 1, Host: "robot", Node: [16]byte{1}}, "update the older one"},
		"node":    {wire.Hello{Version: wire.Version, Host: "robot", Node: [16]byte{9}}, "its certificate says"},
		"host":    {wire.Hello{Version: wire.Version, Host: "krang", Node: [16]byte{1}}, "its certificate says"},
		"other":   {wire.Accepted{ID: 1}, "did not begin with Hello"},
		"silence": {nil, "does not say Hello"},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				ended := make(chan error, 100)
				robot.answers(func(s *session.Session) {
					if welcome.hello != nil {
						say(s, welcome.hello)
					}
					<-s.Done()
					ended <- s.Err()
				})
				pc.run(Config{}, robot)
				if err := <-ended; !strings.Contains(err.Error(), welcome.want) {
					t.Errorf("the peer got %v, want it to name %q", err, welcome.want)
				}
				w.within(time.Second, "the log", func() bool { return strings.Contains(pc.log.String(), welcome.want) })
			})
		})
	}
}

// A second Hello could contain another machine.
func TestSecondHelloEndsLink(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.answers(func(s *session.Session) {
			hello := wire.Hello{Version: wire.Version, Host: "robot", Node: robot.id}
			say(s, hello)
			hello.Machine[0] = 1
			say(s, hello)
			<-s.Done()
		})
		pc.run(Config{}, robot)
		w.within(time.Second, "the log", func() bool { return pc.said("says Hello twice") > 0 })
	})
}

func TestPeerLogsShutdownOfDaemon(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		w.within(time.Second, "link", func() bool { return len(pc.node.Status().Links) == 1 })
		robot.stop()
		w.within(100*time.Millisecond, "the reason", func() bool { return strings.Contains(pc.log.String(), "the daemon is leaving") })
	})
}
