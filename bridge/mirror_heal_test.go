package bridge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/status"
	"achbridge/localach/damage"
)

// A damaged mirror gets a new file, at most one in ten seconds.
func TestDamagedMirrorGetsANewFile(t *testing.T) {
	const magic, length, indexHead, index = 0, 8, 120, 328
	for name, spoil := range map[string]func(h *host){
		"truncated": func(h *host) {
			if err := os.Truncate(filepath.Join(string(h.dir), "achshm-robot.map"), 100); err != nil {
				h.w.t.Fatal(err)
			}
		},
		"magic":      func(h *host) { damage.Write(h.w.t, h.dir, "robot.map", magic, []byte("none")) },
		"length":     func(h *host) { damage.Write(h.w.t, h.dir, "robot.map", length, []byte{1}) },
		"index head": func(h *host) { damage.Write(h.w.t, h.dir, "robot.map", indexHead, []byte{99}) },
		"index":      func(h *host) { damage.Write(h.w.t, h.dir, "robot.map", index, []byte(strings.Repeat("x", 4*24))) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.pair(wire10ms)
				channel := robot.channel("map", 4, 64)
				channel.put(1, 64)
				pc.follows("robot.map", 1, time.Second)
				number := uint64(1)
				for damaged := range uint64(3) {
					begin := time.Now()
					spoil(pc)
					for pc.mirror("robot.map").Replaced != damaged+1 {
						if number++; time.Since(begin) > 15*time.Second {
							t.Fatalf("no new file in 15 s after damage %d: %+v", damaged+1, pc.mirror("robot.map"))
						}
						channel.put(number, 64)
						time.Sleep(100 * time.Millisecond)
					}
					if took := time.Since(begin); damaged > 0 && took < 5*time.Second {
						t.Errorf("damage %d: a new file after %v, want one in 10 s at most", damaged+1, took)
					}
					pc.follows("robot.map", number, 2*time.Second)
				}
				if m := pc.mirror("robot.map"); m.State != status.MirrorLive {
					t.Errorf("the mirror is %s (%s), want live", m.State, m.Reason)
				}
			})
		})
	}
}
