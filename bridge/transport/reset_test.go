package transport

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"achbridge/bridge/transport/session"
)

// restart ends the node at an address without a word, and starts another there.
func (l *lab) restart(t *testing.T, e *Endpoint, cfg Config) *Endpoint {
	t.Helper()
	return l.startAt(t, l.crash(e), cfg)
}

// Whoever has the key, or had it, and takes a node's address and id, does not end the
// sessions of the node: they know nothing of its secret.
func TestResetOfAnotherIsNotBelieved(t *testing.T) {
	overBoth(t, func(t *testing.T, l *lab) {
		a := newAuthority(t)
		for name, cfg := range map[string]struct{ robot, pc Config }{
			"shared key": {Config{Key: l.keys[0], Node: nodeOf("robot"), Host: "robot"}, Config{Key: l.keys[0], Node: nodeOf("pc"), Host: "pc"}},
			"authority":  {issued(t, a, "robot"), issued(t, a, "pc")},
		} {
			robotEnd := l.start(t, cfg.robot)
			_, pc := l.join(t, robotEnd, l.start(t, cfg.pc))
			cfg.robot.ResetSecret = [32]byte{1}
			l.restart(t, robotEnd, cfg.robot)
			for range 10 {
				pc.SendDatagram(make([]byte, 100))
				time.Sleep(4 * oneWay)
			}
			if err := pc.Err(); err != nil {
				t.Errorf("%s: session: got %v, want it to be there still", name, err)
			}
		}
	})
}

// A node that has got another key can still tell that it was restarted.
func TestRestartIsNoticedAfterAChangeOfKeys(t *testing.T) {
	overBoth(t, func(t *testing.T, l *lab) {
		both := must(l.keys[0].Add(l.keys[1]))
		robot := Config{Key: both, Node: nodeOf("robot"), Host: "robot"}
		robotEnd := l.start(t, robot)
		_, pc := l.join(t, robotEnd, l.start(t, Config{Key: both, Node: nodeOf("pc"), Host: "pc"}))
		robot.Key = must(both.Swap())
		setKey(t, robotEnd, robot.Key)
		l.restart(t, robotEnd, robot)
		if err := pc.SendDatagram(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * oneWay)
		if err := pc.Err(); !errors.Is(err, session.ErrRestarted) {
			t.Errorf("session: got %v, want errRestarted", err)
		}
	})
}

// Anybody can have a node say that it knows a session not, by a packet for one that
// there never was. What it says then ends no other session.
func TestResetIsGoodForOneSessionAlone(t *testing.T) {
	inBubble(listenOverSCTP, func(t *testing.T, l *lab) {
		robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
		_, pc := l.join(t, robotEnd, pcEnd)
		conn := l.bind(t, netip.MustParseAddrPort("10.0.1.1:999"))
		defer conn.Close()
		if _, err := conn.WriteTo(record(recordCID, 1, make([]byte, cidSize), make([]byte, 60)), robotEnd.localAddr()); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, _, err := conn.ReadFrom(b)
		if err != nil || n != shimSize || b[1] != kindReset {
			t.Fatalf("answer: got %x, %v, want a reset", b[:n], err)
		}
		l.forge(robotEnd.localAddr(), pcEnd.localAddr(), b[:n])
		time.Sleep(4 * oneWay)
		if err := pc.Err(); err != nil {
			t.Errorf("session: got %v, want it to be there still", err)
		}
	})(t)
}

// A peer of an older version tells no token.
func TestNoTokenIsNoReset(t *testing.T) {
	inBubble(listenOverSCTP, func(t *testing.T, l *lab) {
		robotEnd := l.node(t, "robot")
		_, robot := newSCTPMember(t, l, robotEnd)
		l.forge(robot.RemoteAddr(), robotEnd.localAddr(), appendShim(nil, shim{kind: kindReset}))
		time.Sleep(4 * oneWay)
		if err := robot.Err(); err != nil {
			t.Errorf("session: got %v, want it to be there still", err)
		}
	})(t)
}

// Hosts that were made of one disk image have the secret in common, and not the id.
func TestResetsOfOneSecretDifferFromNodeToNode(t *testing.T) {
	robot, pc := Config{Node: nodeOf("robot")}, Config{Node: nodeOf("pc")}
	if bytes.Equal(robot.resetSecret(""), pc.resetSecret("")) {
		t.Error("two nodes have the same")
	}
}
