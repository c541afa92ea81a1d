package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestHalfCreatedChannelsHoldUpNobody(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		for i := range 26 {
			if err := os.WriteFile(filepath.Join(string(robot.dir), fmt.Sprintf("achshm-c%d", i)), nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		robot.run(Config{})
		time.Sleep(5 * time.Second)
		worst := time.Duration(0)
		for range 20 {
			begin := time.Now()
			robot.node.Status()
			worst = max(worst, time.Since(begin))
			time.Sleep(130 * time.Millisecond)
		}
		if worst > 0 {
			t.Errorf("the node was busy for %v, want it to wait for nothing", worst)
		}
	})
}
