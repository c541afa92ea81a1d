package bridge

import (
	"io"
	"slices"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// unread is a stderr that takes nothing until the test ends.
type unread struct{ ended chan struct{} }

func (u unread) Write(p []byte) (int, error) {
	<-u.ended
	return len(p), nil
}

// agesBeside returns how old the frames of a mirror were when they came, while all that
// is said in the log of its host goes to stderr: somebody else writes into a mirror, a
// mirror becomes stale, and a rule takes away what its peer reads.
func agesBeside(t *testing.T, stderr func(w *world) io.Writer) (ages []time.Duration) {
	inLoneWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		imu, goal, battery := robot.channel("imu", 16, 64), robot.channel("goal", 16, 64), robot.channel("battery", 16, 64)
		robot.run(Config{Mirrors: []rule.Mirror{{Host: "pc", Channel: "plan"}}})
		pc := w.host("pc", wire10ms)
		plan := pc.channel("plan", 16, 64)
		pc.stderr = stderr(w)
		pc.run(Config{Mirrors: []rule.Mirror{
			{Host: "robot", Channel: "imu"},
			{Host: "robot", Channel: "goal"},
			{Host: "robot", Channel: "battery", QoS: rule.QoS{Deadline: 50 * time.Millisecond}},
		}}, robot)
		for _, name := range []string{"robot.imu", "robot.goal", "robot.battery"} {
			w.within(2*time.Second, "live", func() bool { return pc.mirror(name).State == status.MirrorLive })
		}
		w.within(2*time.Second, "live", func() bool { return robot.mirror("pc.plan").State == status.MirrorLive })
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 77*time.Microsecond))) // when nobody else looks
		for i := range uint64(400) {
			imu.put(i+1, 64)
			switch {
			case i == 50:
				goal.put(1, 64)
			case i == 60:
				pc.intrude("robot.goal")
			case i == 70:
				goal.put(2, 64)
			case i == 80:
				battery.put(1, 64)
			case i == 120:
				plan.put(1, 64)
				if err := pc.node.Apply(Config{Export: rule.Grants{{Deny: true, Channels: []string{"plan"}, Hosts: []string{"robot"}}, {Channels: []string{"*"}}}, Mirrors: pc.cfg.Mirrors}); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Second / 4000) // so that no look is at the moment of an arrival
			for range 20 {
				time.Sleep(time.Second / 2000)
				if n, age := pc.newest("robot.imu"); n > uint64(len(ages)) {
					ages = append(ages, age)
				}
			}
		}
		kinds := pc.node.events.Counted()
		for _, kind := range []status.EventKind{status.EventForeignWriter, status.EventMirrorStale, status.EventRefused} {
			if kinds[kind] == 0 {
				t.Errorf("nothing happened of kind %s", kind)
			}
		}
	})
	return ages
}

// intrude puts a frame into a mirror of the host, as a program there might.
func (h *host) intrude(name string) {
	h.w.t.Helper()
	ch, err := h.dir.Open(name)
	if err != nil {
		h.w.t.Fatal(err)
	}
	defer ch.Close()
	w := ch.Writer()
	defer w.Close()
	if _, err := w.Put(frame(99, 64)); err != nil {
		h.w.t.Fatal(err)
	}
}

func TestStderrThatNobodyReadsHoldsUpNoFrame(t *testing.T) {
	t.Parallel()
	read := agesBeside(t, func(w *world) io.Writer { return io.Discard })
	stuck := agesBeside(t, func(w *world) io.Writer {
		u := unread{make(chan struct{})}
		w.t.Cleanup(func() { close(u.ended) })
		return u
	})
	if len(read) < 390 || !slices.Equal(read, stuck) {
		t.Errorf("ages of %d frames with a log that is read, and of %d with one that is not; they differ:\n%v\n%v", len(read), len(stuck), read, stuck)
	}
}
