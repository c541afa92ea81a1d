package transport

import (
	"errors"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

// must returns the key, or panics on an error.
func must(k trust.Key, err error) trust.Key {
	if err != nil {
		panic(err)
	}
	return k
}

// overBoth runs a scenario in virtual time, over QUIC and over SCTP.
func overBoth(t *testing.T, s scenario) {
	t.Run("quic", inBubble(Listen, s))
	t.Run("sctp", inBubble(listenOverSCTP, s))
}

// overAll is overBoth, and through a hub.
func overAll(t *testing.T, s scenario) {
	overBoth(t, s)
	t.Run("hub", throughHub(s))
}

// setKey changes the key of a running endpoint.
func setKey(t *testing.T, e *Endpoint, key trust.Key) {
	t.Helper()
	if err := e.SetKey(key); err != nil {
		t.Fatal(err)
	}
}

// Each step of a change of keys reaches one host before the other.
func TestKeyRotationKeepsHostsConnected(t *testing.T) {
	overAll(t, func(t *testing.T, l *lab) {
		old, next := l.keys[0], l.keys[1]
		both := must(old.Add(next))
		swapped := must(both.Swap())
		robot, pc := l.node(t, "robot"), l.node(t, "pc")
		for _, step := range []struct {
			name       string
			robot, key trust.Key
		}{
			{"robot has a second key", both, old},
			{"both have", both, both},
			{"robot signs by the new one", swapped, both},
			{"both sign", swapped, swapped},
			{"robot has dropped the old one", must(swapped.Drop()), swapped},
			{"both have", next, next},
		} {
			setKey(t, robot, step.robot)
			setKey(t, pc, step.key)
			accepted, dialled := l.join(t, robot, pc)
			if err := errors.Join(accepted.Err(), dialled.Err()); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
			accepted.Close("next")
			waitDone(t, dialled)
			accepted, dialled = l.join(t, pc, robot)
			accepted.Close("next")
			waitDone(t, dialled)
		}
		if _, err := l.start(t, Config{Key: old, Node: nodeOf("late"), Host: "late"}).Dial(t.Context(), robot.LocalAddrs()); !errors.Is(err, trust.ErrWrongKey) {
			t.Errorf("a host with the old key alone: got %v, want ErrWrongKey", err)
		}
	})
}

func TestKeyChangeEndsOnlySessionsOfOldKey(t *testing.T) {
	overAll(t, func(t *testing.T, l *lab) {
		both := must(l.keys[0].Add(l.keys[1]))
		robot := l.start(t, Config{Key: both, Node: nodeOf("robot"), Host: "robot"})
		_, old := l.join(t, robot, l.start(t, Config{Key: l.keys[0], Node: nodeOf("old"), Host: "old"}))
		next := l.start(t, Config{Key: must(both.Swap()), Node: nodeOf("next"), Host: "next"})
		_, kept := l.join(t, robot, next)

		setKey(t, robot, l.keys[1])
		err := waitDone(t, old)
		if closed, ok := errors.AsType[*session.CloseError](err); !ok || !closed.Remote || !strings.Contains(closed.Reason, "changed its key") {
			t.Errorf("session of the old key: got %v, want it closed with the reason", err)
		}
		time.Sleep(time.Second)
		if err := kept.Err(); err != nil {
			t.Errorf("session of the new key: got %v, want it up", err)
		}
		if got := len(l.logs[robot].lines("not trusted any more")); got != 1 {
			t.Errorf("log lines: got %d, want 1", got)
		}
	})
}

// A handshake must fail if the key is changed before its end.
func TestHandshakeUnderDroppedKeyFails(t *testing.T) {
	inBubble(Listen, func(t *testing.T, l *lab) {
		robot := l.node(t, "robot")
		accepted, _ := l.join(t, robot, l.node(t, "pc"))
		setKey(t, robot, l.keys[1])
		waitDone(t, accepted)
		if err := robot.enter(accepted); !errors.Is(err, trust.ErrWrongKey) {
			t.Errorf("enter: got %v, want ErrWrongKey", err)
		}
	})(t)
}

func TestSetKeyRefusesZeroKey(t *testing.T) {
	inBubble(Listen, func(t *testing.T, l *lab) {
		robot, pc := l.node(t, "robot"), l.node(t, "pc")
		if err := robot.SetKey(trust.Key{}); err == nil {
			t.Error("set key: no error")
		}
		l.join(t, robot, pc)
	})(t)
}
