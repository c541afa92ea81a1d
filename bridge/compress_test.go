package bridge

import (
	"fmt"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet"
)

func TestCompressedFramesArriveWhole(t *testing.T) {
	for _, c := range []struct {
		size int
		qos  rule.QoS
	}{
		{800, rule.QoS{Compress: rule.CompressZstd}},
		{3000, rule.QoS{Compress: rule.CompressZstd}}, // fits a datagram when compressed
		{300_000, rule.QoS{Compress: rule.CompressZstd, Budget: time.Second}},
		{300_000, rule.QoS{Compress: rule.CompressAuto, Budget: time.Second}},
		{3000, rule.QoS{Compress: rule.CompressZstd, Mode: rule.Every}},
	} {
		t.Run(fmt.Sprint(c.qos.Compress, c.qos.Mode, c.size), func(t *testing.T) {
			inWorld(t, func(w *world) {
				slow, err := testnet.ParseParams("delay=10ms,rate=1mbit,queue=64KiB")
				if err != nil {
					t.Fatal(err)
				}
				robot := w.host("robot", slow)
				grid := robot.channel("grid", 16, c.size)
				robot.run(Config{})
				var readers []*host
				for _, name := range []string{"pc", "tablet"} {
					readers = append(readers, w.host(name, slow).run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", QoS: c.qos}}}, robot))
				}
				for _, h := range readers {
					w.within(2*time.Second, "live", func() bool { return h.mirror("robot.grid").State == status.MirrorLive })
				}
				for number := uint64(1); number <= 20; number++ {
					grid.put(number, c.size)
					time.Sleep(100 * time.Millisecond) // 300 kB would take 2.4 s uncompressed
					for _, h := range readers {
						if got, _ := h.newest("robot.grid"); got != number {
							t.Fatalf("%s: got frame %d after 100 ms, want %d", h.name, got, number)
						}
					}
				}
			})
		})
	}
}
