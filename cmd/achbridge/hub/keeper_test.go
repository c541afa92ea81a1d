package hub

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"achbridge/bridge/hub"
	"achbridge/testnet/await"
)

// TestFullHubAcceptsFramesOfOtherHosts lets one host put more than fits into the hub's memory. A nats-server by itself would
// then refuse the frames of all hosts.
func TestFullHubAcceptsFramesOfOtherHosts(t *testing.T) {
	w := newWorldWith(t, leastMemory, "greedy", "robot")
	greedy := w.connect("greedy")
	robot := w.connect("robot")
	if text := w.make(robot, "robot", "imu"); text != "" {
		t.Fatal(text)
	}
	const cameras = leastMemory/hub.MaxPayload + 1
	for i := range cameras {
		if text := w.make(greedy, "greedy", fmt.Sprint("camera", i)); text != "" {
			t.Fatal(text)
		}
	}
	large := make([]byte, hub.MaxPayload-1000)
	for i := range cameras {
		if _, err := greedy.Request(hub.FrameSubject("greedy", fmt.Sprint("camera", i)), large, await.Limit); err != nil {
			t.Fatal(err)
		}
	}
	w.until("the robot's frames are taken", func() bool {
		answer, err := robot.Request(hub.FrameSubject("robot", "imu"), []byte("frame"), await.Limit)
		return err == nil && !strings.Contains(string(answer.Data), "error")
	})
	w.until("frames were dropped", func() bool { return w.s.report().Dropped > 0 })
	if used := w.s.keeper.used(); used > leastMemory {
		t.Errorf("got frames of %d MiB, want at most %d", used>>20, leastMemory>>20)
	}
	w.until("the log names the host that uses most memory", func() bool {
		return strings.Contains(w.logs.String(), "memory is full") && strings.Contains(w.logs.String(), "hosts=[greedy]")
	})
}

func TestLargestHostLosesItsLargestFrames(t *testing.T) {
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
