package transport

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"achbridge/bridge/transport/session"
)

// restart ends the node at an address without a word, and starts another there.
func (l *lab) restart(t *testing.T, e *Endpoint, cfg Config) *Endpoint {
	t.Helper()
	return l.startAt(t, l.crash(e), cfg)
}

// A present or former member that takes over a node's address and id cannot end the node's
// sessions, since it does not know the node's secret.
func TestResetWithOtherSecretIsIgnored(t *testing.T) {
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

// A node with a new key can still report to its peers that it was restarted.
func TestRestartIsDetectedAfterKeyChange(t *testing.T) {
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

// Hosts that were made of one disk image have the secret in common, and not the id.
func TestResetsOfOneSecretDifferBetweenNodes(t *testing.T) {
	robot, pc := Config{Node: nodeOf("robot")}, Config{Node: nodeOf("pc")}
	if bytes.Equal(robot.resetSecret(""), pc.resetSecret("")) {
		t.Error("two nodes have the same")
	}
}
