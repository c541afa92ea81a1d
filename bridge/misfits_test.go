package bridge

import (
	"encoding/binary"
	"testing"

	"achbridge/bridge/layout"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// counted is the layout of frames that end in n numbers.
func counted(t *testing.T) []byte {
	t.Helper()
	b, err := (&layout.Layout{Name: "scan", Size: 4, Fields: []layout.Field{
		{Name: "n", Type: layout.Uint32}, {Name: "x", Type: layout.Uint32, Offset: 4},
	}, Tail: "x", Counter: "n"}).Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// scan is a frame of that layout with so many numbers, which says that there are n.
func scan(n, numbers int) []byte {
	frame := make([]byte, 4+4*numbers)
	binary.LittleEndian.PutUint32(frame, uint32(n))
	return frame
}

// misfit is what the status says of the newest frame of a channel or mirror; "" when it fits.
func (h *host) misfit(name string) string {
	s := h.node.Status()
	for _, c := range s.Locals {
		if c.Channel == name && c.Misfit != nil {
			return string(c.Misfit.TypeFrom) + ": " + c.Misfit.Why
		}
	}
	for _, m := range s.Mirrors {
		if m.Name == name && m.Misfit != nil {
			return string(m.Misfit.TypeFrom) + ": " + m.Misfit.Why
		}
	}
	return ""
}

func TestFrameThatDoesNotFitItsTypeIsToldWhereTheTypeIsKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, other := w.host("robot", wire10ms), w.host("pc", wire10ms), w.host("other", wire10ms)
		imu := robot.channel("imu", 4, 64)
		robot.run(Config{Layouts: []ChannelLayout{{Channels: "imu", Packed: packed(t, "imu", 64)}}})
		wanted := []rule.Mirror{{Host: "robot", Channel: "*"}}
		pc.run(Config{Mirrors: wanted}, robot)
		other.run(Config{Mirrors: wanted, Layouts: []ChannelLayout{{Channels: "robot/i*", Packed: packed(t, "mine", 48)}}}, robot)
		expect := func(h *host, name, want string) {
			t.Helper()
			if got := h.misfit(name); got != want {
				t.Errorf("%s: got %q, want %q", h.name, got, want)
			}
		}
		expect(robot, "imu", "") // no frame yet
		imu.put(1, 64)
		pc.follows("robot.imu", 1, second)
		other.follows("robot.imu", 1, second)
		expect(robot, "imu", "")
		expect(pc, "robot.imu", "")
		expect(other, "robot.imu", "file: 64 bytes do not fit mine, which has 48")

		imu.put(2, 48)
		pc.follows("robot.imu", 2, second)
		other.follows("robot.imu", 2, second)
		expect(robot, "imu", "file: 48 bytes do not fit imu, which has 64")
		expect(pc, "robot.imu", "") // nobody has asked for the layout
		expect(other, "robot.imu", "")
		pc.says("robot.imu")
		expect(pc, "robot.imu", "origin: 48 bytes do not fit imu, which has 64")
		if s := pc.node.Status(); s.Mirrors[0].Health() != status.HealthLive {
			t.Errorf("got %s, want a mirror that is live all the same", s.Mirrors[0].Health())
		}
	})
}

func TestTailOfAFrameIsCountedToSayIfItFits(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		ch := robot.channel("scan", 4, 1<<18)
		robot.run(Config{Layouts: []ChannelLayout{{Channels: "*", Packed: counted(t)}}})
		w.within(second, "the channel", func() bool { return len(robot.node.Status().Locals) == 1 })
		for _, c := range []struct {
			frame []byte
			want  string
		}{
			{scan(0, 0), ""},
			{scan(3, 3), ""},
			{scan(4, 3), "file: 16 bytes do not fit scan, whose n says 4 elements"},
			{scan(2, 3), "file: 16 bytes do not fit scan, whose n says 2 elements"},
			{scan(16, 16), ""},
			{scan(1, 1)[:3], "file: 3 bytes do not fit scan, whose x begins at 4"},
			{scan(1, 1<<15), ""}, // too large to be looked at
		} {
			if _, err := ch.w.Put(c.frame); err != nil {
				t.Fatal(err)
			}
			if got := robot.misfit("scan"); got != c.want {
				t.Errorf("%d bytes that say %d: got %q, want %q", len(c.frame), c.frame[0], got, c.want)
			}
		}
	})
}
