package bridge

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/testnet"
)

// peeked returns a host's temporary mirrors in its status, and the number of their files.
func (h *host) peeked() (list []status.Mirror, files int) {
	h.w.t.Helper()
	for _, m := range h.node.Status().Mirrors {
		if m.Temporary {
			list = append(list, m)
		}
	}
	infos, err := h.dir.List()
	if err != nil {
		h.w.t.Fatal(err)
	}
	for _, c := range infos {
		if strings.HasPrefix(c.Name, temporaryPrefix) {
			files++
		}
	}
	return list, files
}

func (h *host) view(channel string) func() {
	h.w.t.Helper()
	end, err := h.node.MirrorTemporarily("robot", channel)
	if err != nil {
		h.w.t.Fatal(err)
	}
	return end
}

func TestTemporaryMirrorLastsUntilLastViewerLeaves(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		imu := robot.channel("imu", 4, 64)
		robot.run(Config{})
		pc.run(Config{Relay: []string{"*"}})
		pc.node.SetPeers([]Peer{{Host: "robot", Node: robot.id.String(), Addrs: asPeers([]*host{robot})[0].Addrs}}) // not listed: dialled because somebody looks
		imu.put(1, 64)
		first, second := pc.view("imu"), pc.view("imu")
		w.within(5*time.Second, "a mirror", func() bool { list, _ := pc.peeked(); return len(list) == 1 && list[0].State == status.MirrorLive })
		list, _ := pc.peeked()
		pc.follows(list[0].Name, 1, time.Second)
		if q := list[0].QoS; q.Priority.Level() != 0 {
			t.Errorf("looking takes from others: %+v", q)
		}
		for _, c := range pc.node.Exported() {
			t.Errorf("%s is offered to others", c.Channel)
		}
		first()
		first()
		time.Sleep(time.Second)
		imu.put(2, 64)
		pc.follows(list[0].Name, 2, time.Second)
		second()
		w.within(time.Second, "its end", func() bool { list, files := pc.peeked(); return len(list) == 0 && files == 0 })
		w.within(time.Second, "the robot's part of it", func() bool { return len(robot.node.Status().Exports) == 0 })
	})
}

func TestTemporaryMirrorGetsLargeFramesOverSlowLink(t *testing.T) {
	inWorld(t, func(w *world) {
		slow := testnet.Params{Delay: 10 * milli, Rate: 2_000_000, Queue: 64 << 10}
		robot, pc := w.host("robot", slow), w.host("pc", slow)
		image := make([]byte, 200_000) // occupies the link for 800 ms
		rand.NewChaCha8([32]byte{}).Read(image)
		camera := robot.channel("camera", 4, len(image))
		robot.run(Config{})
		pc.run(Config{})
		pc.node.SetPeers([]Peer{{Host: "robot", Node: robot.id.String(), Addrs: asPeers([]*host{robot})[0].Addrs}})
		defer pc.view("camera")()
		for range 100 {
			if _, err := camera.w.Put(image); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * milli)
		}
		if list, _ := pc.peeked(); len(list) != 1 || list[0].Delivered < 15 {
			t.Errorf("got %+v, want 15 frames at least in 20 s", list)
		}
	})
}

func TestViewerUsesExistingMirror(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.channel("imu", 4, 64).put(1, 64)
		robot.run(Config{})
		pc.run(Config{}, robot)
		end := pc.view("imu")
		defer end()
		w.within(5*time.Second, "a mirror", func() bool { list, _ := pc.peeked(); return len(list) == 1 && list[0].State == status.MirrorLive })
		request := rule.Mirror{Host: "robot", Channel: "*"}
		if err := pc.node.Mirror(request); err != nil {
			t.Fatal(err)
		}
		pc.follows("robot.imu", 1, time.Second)
		if list, files := pc.peeked(); len(list) != 0 || files != 0 {
			t.Errorf("got %d temporary mirrors and %d files beside a mirror, want none", len(list), files)
		}
		if err := pc.node.Unmirror(request, Remove); err != nil {
			t.Fatal(err)
		}
		w.within(time.Second, "a mirror for who still looks", func() bool { list, _ := pc.peeked(); return len(list) == 1 && list[0].State == status.MirrorLive })
		pc.stop()
		if _, files := pc.peeked(); files != 0 {
			t.Errorf("the node left %d files", files)
		}
	})
}

func TestTemporaryMirrorIsRefusedByDenyRule(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.host("pc", wire10ms).run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "secret", Deny: true, From: "mirror[0]"}}})
		for channel, want := range map[string]string{"secret": "mirror[0] denies it", "im*": "not a pattern", "": "not a pattern"} {
			if _, err := pc.node.MirrorTemporarily("robot", channel); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %q", channel, err, want)
			}
		}
	})
}

func TestLeftoverTemporaryMirrorsAreRemoved(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.host("pc", wire10ms)
		names := temporaryPrefix + pc.id.String()[:8] + "-"
		for name, tag := range map[string]localach.Tag{names + "7": {Node: [16]byte{1}, Channel: 1}, names + "8": {}, temporaryPrefix + "00112233-1": {Node: [16]byte{1}, Channel: 1}} {
			ch, err := pc.dir.Create(name, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 2, FrameSize: 8}, Tag: tag})
			if err != nil {
				t.Fatal(err)
			}
			ch.Close()
		}
		pc.run(Config{})
		w.within(time.Second, "two files that are not ours", func() bool { _, files := pc.peeked(); return files == 2 })
		if _, err := pc.dir.Open(names + "7"); err == nil {
			t.Error("the file of the daemon before is still there")
		}
	})
}
