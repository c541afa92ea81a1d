package hub

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"achbridge/bridge/hub"
	"achbridge/testnet/await"
)

func TestHostKeepsItsNewestConnections(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	pc := w.connect("pc")
	var conns []*nats.Conn
	for range keptConnections + 3 {
		conns = append(conns, w.connect("robot"))
	}
	w.until("the oldest ones are closed", func() bool { return conns[0].IsClosed() && conns[1].IsClosed() && conns[2].IsClosed() })
	for i, c := range conns[3:] {
		if err := c.FlushTimeout(await.Limit); err != nil {
			t.Errorf("connection %d: %v, want it open", i+3, err)
		}
	}
	if !pc.IsConnected() {
		t.Error("another host was disconnected too")
	}
}

// The server receives the host's address from the front, which accepts the connection.
func TestHubReportsAddressesOfHosts(t *testing.T) {
	w := newWorld(t, "robot")
	robot := w.connect("robot")
	w.until("the report has the address of robot", func() bool { h := w.s.report().Hosts[0]; return h.Connected && h.From == robot.LocalAddr() })
}

// The server keeps a list of thousands of closed connections.
func TestClosedConnectionsDoNotCountTowardsLimit(t *testing.T) {
	w := newWorld(t, "robot")
	for range 2 * maxConnections {
		w.until("robot is connected", func() bool {
			robot, err := w.dial(w.credentials("robot"))
			if err == nil {
				robot.Close()
			}
			return err == nil
		})
	}
}

func TestGuardLimitsConnectionsOfHost(t *testing.T) {
	robot, pc := Host{"robot", "ROBOT"}, Host{"pc", "PC"}
	g := &guard{as: map[uint64]Host{}, hosts: map[string]string{"ROBOT": "robot", "PC": "pc"}}
	if err := g.let(0, Host{"pc", "ROBOT"}); !errors.Is(err, errUnknown) {
		t.Errorf("a host that was removed: got %v, want %v", err, errUnknown)
	}
	for n := range uint64(maxConnections) {
		if err := g.let(n, pc); err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
	}
	if err := g.let(100, pc); !errors.Is(err, errMany) {
		t.Errorf("one more: got %v, want %v", err, errMany)
	}
	if err := g.let(100, robot); err != nil {
		t.Errorf("another host: %v", err)
	}
	g.forget(1)
	if err := g.let(101, pc); err != nil {
		t.Errorf("after one has ended: got %v, want no error", err)
	}
}

// stalled connects a host that sends lines and then reads nothing.
func (w *world) stalled(host string, lines ...string) {
	w.Helper()
	conn, nonce := w.greeted()
	if _, err := fmt.Fprintf(w.secured(conn), "%s%s\r\n", w.proof(host, nonce), strings.Join(lines, "\r\n")); err != nil {
		w.Fatal(err)
	}
}

// The hub limits the bytes that wait for a host, for all its connections together.
func TestStalledReaderIsDisconnected(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	robot := w.connect("robot")
	w.put(robot, "robot", "camera", strings.Repeat("x", hub.MaxPayload))
	const connections = 4
	for range connections {
		w.stalled("pc", "SUB _INBOX.pc.x 1")
	}
	pc := w.connect("pc") // the newest: frames wait for it too, and the hub disconnects the oldest
	frames, err := pc.SubscribeSync("_INBOX.pc.x")
	if err != nil {
		t.Fatal(err)
	}
	w.until("all are connected", func() bool { return w.s.report().Hosts[0].Connections == 1+connections })
	for range 3 {
		if text := w.read(pc, "pc", "robot,camera first"); text != "" {
			t.Fatal(text)
		}
		if err := pc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.robot,camera.pc", "_INBOX.pc.x", []byte(hub.FetchBody)); err != nil {
			t.Fatal(err)
		}
		if _, err := frames.NextMsg(await.Limit); err != nil {
			t.Fatal(err)
		}
	}
	w.until("two connections are ended", func() bool {
		z, err := w.s.nats.Connz(&server.ConnzOptions{State: server.ConnClosed})
		if err != nil {
			return false
		}
		return len(slices.DeleteFunc(z.Conns, func(c *server.ConnInfo) bool { return c.Reason != server.Kicked.String() })) >= 2
	})
	if !robot.IsConnected() {
		t.Error("another host was disconnected too")
	}
}
