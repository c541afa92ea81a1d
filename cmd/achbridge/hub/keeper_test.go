package hub

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/hub"
)

// TestAFullHubGoesOn has one host put so much that a nats-server would take no frame of anybody
// any more.
func TestAFullHubGoesOn(t *testing.T) {
	w := newWorldWith(t, leastMemory, "greedy", "robot")
	greedy, _ := w.connect("greedy")
	robot, _ := w.connect("robot")
	if text := w.make(robot, "robot", "imu"); text != "" {
		t.Fatal(text)
	}
	large := make([]byte, hub.MaxPayload-1000)
	for i := range 12 {
		if text := w.make(greedy, "greedy", fmt.Sprint("camera", i)); text != "" {
			t.Fatal(text)
		}
	}
	for i := range 12 {
		if _, err := greedy.Request(hub.FrameSubject("greedy", fmt.Sprint("camera", i)), large, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	w.until("the robot's frames are taken", func() bool {
		answer, err := robot.Request(hub.FrameSubject("robot", "imu"), []byte("frame"), 10*time.Second)
		return err == nil && !strings.Contains(string(answer.Data), "error")
	})
	if used := w.s.keeper.used(); used > leastMemory {
		t.Errorf("the frames take %d MiB, want %d at most", used>>20, leastMemory>>20)
	}
	if r := w.s.report(); r.Dropped == 0 || !strings.Contains(w.logs.String(), "memory is full") || !strings.Contains(w.logs.String(), "hosts=[greedy]") {
		t.Errorf("got %d frames dropped, and the log\n%s\nwant that it names the host that takes most", r.Dropped, w.logs)
	}
}

func TestTheHostThatTakesMostLosesItsLargestFrames(t *testing.T) {
	all := []kept{{"a,1", "a", 10}, {"a,2", "a", 30}, {"b,1", "b", 25}, {"b,2", "b", 20}, {"c,1", "c", 1}}
	for excess, want := range map[int64][]kept{
		0:   nil,
		1:   {{"b,1", "b", 25}},
		26:  {{"b,1", "b", 25}, {"a,2", "a", 30}},
		100: {{"b,1", "b", 25}, {"a,2", "a", 30}, {"b,2", "b", 20}, {"a,1", "a", 10}, {"c,1", "c", 1}},
	} {
		if got := toDrop(all, excess); !reflect.DeepEqual(got, want) {
			t.Errorf("for %d bytes: got %v, want %v", excess, got, want)
		}
	}
}
