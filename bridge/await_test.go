package bridge

import (
	"context"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

func TestAwaitDetectsLiveMirrorWithoutPolling(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.channel("imu", 4, 64)
		robot.run(Config{})
		pc.run(Config{})
		pc.node.SetPeers(asPeers([]*host{robot}))
		if err := pc.node.Mirror(rule.Mirror{Host: "robot", Channel: "imu"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		defer cancel()
		asked, live := 0, func() bool {
			list := pc.node.StatusNow().Mirrors
			return len(list) == 1 && list[0].State == status.MirrorLive
		}
		pc.node.Await(ctx, func() bool { asked++; return live() })
		if ctx.Err() != nil || !live() {
			t.Fatalf("mirrors = %+v, want one that is live", pc.node.StatusNow().Mirrors)
		}
		if asked > 100 {
			t.Errorf("Await called its function %d times, want once for each change", asked)
		}
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.host("pc", wire10ms)
		pc.run(Config{})
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		asked := 0
		pc.node.Await(ctx, func() bool { asked++; pc.node.StatusNow(); return false })
		if most := int(2 * time.Second / tick); ctx.Err() == nil || asked > most {
			t.Errorf("Await called its function %d times and ended with %v, want at most %d calls and the context's error", asked, ctx.Err(), most)
		}
	})
}
