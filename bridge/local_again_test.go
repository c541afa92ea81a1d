package bridge

import (
	"os"
	"testing"
	"time"
)

// A restarted program makes its channel again in the same file. The node may open the file while
// it is half made.
func TestChannelOpenedDuringCreationGetsNewEpoch(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		robot.run(Config{})
		robot.channel("map", 16, 64).put(1, 64)
		life := func() (epoch uint64) {
			robot.node.loop.call(func() {
				if c := robot.node.locals.Get("map"); c.IsOpen() {
					epoch = c.Ring.Epoch()
				}
			})
			return epoch
		}
		w.within(5*time.Second, "the channel", func() bool { return life() != 0 })
		before := life()
		path := robot.dir.Path("map")
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write := func(b []byte) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(b, 0); err != nil {
				t.Fatal(err)
			}
		}
		write(make([]byte, len(whole)))
		w.within(5*time.Second, "half created", func() bool { return life() == 0 })
		write(whole) // the same number of frames as before
		w.within(5*time.Second, "the channel again", func() bool { return life() != 0 })
		if life() == before {
			t.Error("got the former epoch of the channel, want a new one")
		}
	})
}
