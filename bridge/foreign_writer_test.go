package bridge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// twoWriters returns two daemons of one host that mirror the same channel of a robot.
func twoWriters(w *world) (imu *channel, daemons [2]*host) {
	robot := w.host("robot", wire10ms)
	imu = robot.channel("imu", 16, 64)
	robot.run(Config{})
	for i, name := range []string{"pc", "second"} {
		daemons[i] = w.host(name, wire10ms)
		daemons[i].dir = daemons[0].dir
		daemons[i].run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu"}}}, robot)
	}
	return imu, daemons
}

func TestBothDaemonsReportForeignWriter(t *testing.T) {
	for what, c := range map[string]struct{ period, stream, after time.Duration }{
		"often": {50 * time.Millisecond, 3 * time.Second, 12 * time.Second}, "seldom": {12 * time.Second, 13 * time.Second, 40 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				imu, daemons := twoWriters(w)
				for _, h := range daemons {
					w.within(5*time.Second, "the mirror", func() bool { return h.mirror("robot.imu").State == status.MirrorLive })
				}
				number := uint64(0)
				stream := func(long time.Duration) {
					for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(c.period) {
						number++
						imu.put(number, 64)
					}
				}
				for range 2 { // the state lasts while both write
					stream(c.stream)
					for _, h := range daemons {
						m := h.mirror("robot.imu")
						if m.State != status.MirrorForeignWriter || m.Cause != status.CauseForeignWriter || !strings.Contains(m.Reason, "another achbridge") || m.Foreign == 0 {
							t.Errorf("%s: got %s, cause %s (%s), %d frames of another; want it contested", h.name, m.State, m.Cause, m.Reason, m.Foreign)
						}
						if told := len(h.events(status.EventForeignWriter)); told != 1 {
							t.Errorf("%s: got %d events of a foreign writer, want one", h.name, told)
						}
					}
				}
				daemons[1].stop()
				stream(c.after)
				if m := daemons[0].mirror("robot.imu"); m.State != status.MirrorLive || m.Reason != "" || m.Cause != "" {
					t.Errorf("with one daemon: got %s (%s), want it live", m.State, m.Reason)
				}
				if told := len(daemons[0].events(status.EventForeignGone)); told != 1 {
					t.Errorf("got %d events of the end, want one", told)
				}
			})
		})
	}
}

// Only our daemon puts frames, also after the file was replaced or the link was down.
func TestMirrorWithOneWriterHasNoForeignWriter(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		imu := robot.channel("imu", 16, 64)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, 2*time.Second)
		imu.put(2, 900) // larger, so that the file is replaced
		pc.follows("robot.imu", 2, 2*time.Second)
		for n := uint64(3); n < 10; n++ {
			if n == 5 {
				pc.stop()
				pc.run(pc.cfg, robot)
			}
			imu.put(n, 64)
			pc.follows("robot.imu", n, 10*time.Second)
			time.Sleep(tick)
		}
		if m := pc.mirror("robot.imu"); m.State != status.MirrorLive || m.Foreign != 0 {
			t.Errorf("got %s (%s), %d frames of another, want it live and none", m.State, m.Reason, m.Foreign)
		}
	})
}

// putByProgram lets a program of the host put frame 77 into a channel.
func (h *host) putByProgram(channel string) {
	h.w.t.Helper()
	ch, err := h.dir.Open(channel)
	if err != nil {
		h.w.t.Fatal(err)
	}
	defer ch.Close()
	program := ch.Writer()
	defer program.Close()
	if _, err := program.Put(frame(77, 64)); err != nil {
		h.w.t.Fatal(err)
	}
}

// Frames that a program puts while the mirror is not fed are counted, but do not make it
// contested.
func TestIdleMirrorHasNoForeignWriter(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		imu := robot.channel("imu", 16, 64)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, 2*time.Second)
		robot.stop()
		w.within(5*time.Second, "the end of the link", func() bool { return pc.mirror("robot.imu").State == status.MirrorWaiting })
		pc.putByProgram("robot.imu")
		robot.run(Config{})
		imu.put(2, 64)
		pc.follows("robot.imu", 2, 20*time.Second)
		time.Sleep(time.Second)
		if m := pc.mirror("robot.imu"); m.State != status.MirrorLive || m.Foreign != 1 {
			t.Errorf("got %s (%s), %d frames of another, want it live, and one", m.State, m.Reason, m.Foreign)
		}
	})
}

// A restarted daemon trusts the mirror's file, although a program has put a frame into it that the
// origin never put.
func TestRestartedMirrorRecognizesForeignFrame(t *testing.T) {
	for name, meanwhile := range map[string]uint64{"the origin rests": 0, "the origin goes on": 3} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				events := robot.channel("events", 32, 64)
				for n := range uint64(10) {
					events.put(n+1, 64)
				}
				robot.run(Config{})
				pc.run(every(robot, "events"), robot)
				numbers := pc.follow("robot.events")
				pc.follows("robot.events", 10, 2*time.Second)
				pc.putByProgram("robot.events")
				pc.stop()
				for n := range meanwhile {
					events.put(11+n, 64)
				}
				pc.run(pc.cfg, robot)
				w.within(5*time.Second, "the link", func() bool { return pc.mirror("robot.events").State == status.MirrorLive })
				time.Sleep(time.Second)
				events.put(11+meanwhile, 64)
				pc.follows("robot.events", 11+meanwhile, 10*time.Second)
				all := numbers()
				if len(all) < 11 || all[10] != 77 {
					t.Fatalf("got frames %v, want the program's behind the first ten", all)
				}
				consecutive(t, slices.Delete(all, 10, 11), 1, 11+meanwhile)
			})
		})
	}
}
