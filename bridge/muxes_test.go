package bridge

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

const safeNumber = 1 << 41 // number in the safe frame of a mux

// muxOf returns a mux of inputs that are live for 100 ms, with a safe frame.
func muxOf(inputs ...string) rule.Mux {
	m := rule.Mux{Output: "ref", Safe: rule.OnStale{File: "stop", Frame: string(frame(safeNumber, 64))}}
	for _, name := range inputs {
		m.Inputs = append(m.Inputs, rule.MuxInput{Channel: name, Live: 100 * time.Millisecond})
	}
	return m
}

// runMux runs a mux on a robot with the given channels, and waits until the safe frame was put.
func (w *world) runMux(r rule.Mux) (robot *host, inputs map[string]*channel) {
	w.t.Helper()
	robot, inputs = w.host("robot", wire10ms), map[string]*channel{}
	for _, in := range r.Inputs {
		inputs[in.Channel] = robot.channel(in.Channel, 4, 64)
	}
	robot.run(Config{Muxes: rule.Muxes{r}})
	robot.follows("ref", safeNumber, time.Second)
	time.Sleep(time.Millisecond) // at the very start of the node's clock no capture time is known
	return robot, inputs
}

// stays fails if the newest frame of a channel changes within some time.
func (h *host) stays(name string, number uint64, long time.Duration) {
	h.w.t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if got, _ := h.newest(name); got != number {
			h.w.t.Fatalf("%s: got frame %d, want %d to stay", name, got, number)
		}
	}
}

func TestMuxPutsFramesOfFirstLiveInput(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, in := w.runMux(muxOf("teleop", "planner"))
		in["planner"].put(1, 64)
		robot.follows("ref", 1, 5*time.Millisecond)
		in["teleop"].put(2, 64)
		robot.follows("ref", 2, 5*time.Millisecond)
		time.Sleep(10 * time.Millisecond)
		in["planner"].put(3, 64)
		robot.stays("ref", 2, 85*time.Millisecond) // teleop is live and silent
		time.Sleep(10 * time.Millisecond)
		robot.stays("ref", 2, 4*time.Millisecond) // planner is live, but its frame was shadowed
		robot.follows("ref", safeNumber, 20*time.Millisecond)
		in["planner"].put(4, 64)
		robot.follows("ref", 4, 5*time.Millisecond)
		m := robot.mirror("ref")
		if m.State != status.MirrorLive || m.Mux == nil || m.Mux.Winner != "planner" || m.Mux.Inputs[0].State != "expired" || m.Mux.Inputs[1].Put != 2 || m.Safe != 2 {
			t.Errorf("got %+v, %+v, want planner to win, with 2 of its frames put and 2 safe frames", m, m.Mux)
		}
		if m.AgeMs == nil || *m.AgeMs > 10 {
			t.Errorf("got age %v of the output, want that of the input's frame", m.AgeMs)
		}
		in["planner"].put(5, 256) // larger than the frames of the inputs' channels
		w.within(10*time.Millisecond, "a larger frame", func() bool { return robot.mirror("ref").Bytes == 256 })
	})
}

// The frame of a mirror counts from its capture at the origin, not from its put.
func TestMirroredMuxInputCountsFromCapture(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		goal := pc.channel("goal", 4, 64)
		pc.run(Config{})
		robot.run(Config{
			Mirrors: rule.Mirrors{{Host: "pc", Channel: "goal", As: "goal", QoS: rule.QoS{Class: rule.Command, Budget: time.Second}}}, Muxes: rule.Muxes{muxOf("goal")},
		}, pc)
		w.within(5*time.Second, "the mirror", func() bool { return robot.mirror("goal").State == status.MirrorLive })
		time.Sleep(200 * time.Millisecond) // for the clock synchronization
		put := time.Now()
		goal.put(1, 64)
		robot.follows("ref", 1, 30*time.Millisecond)
		robot.follows("ref", safeNumber, 200*time.Millisecond)
		if live := time.Since(put); live > 101*time.Millisecond || live < 80*time.Millisecond {
			t.Errorf("the frame was live until %v after its capture, want 100ms less the uncertainty", live)
		}
	})
}

func TestMuxRefusesInputsOfUnknownAge(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		state, goal := pc.channel("state", 4, 64), pc.channel("goal", 4, 64)
		pc.run(Config{})
		r := rule.Mux{Output: "ref", Inputs: []rule.MuxInput{{Channel: "pc.state", Live: time.Second}, {Channel: "pc.goal", Expiry: "sns"}}}
		robot.run(Config{Mirrors: rule.Mirrors{
			{Host: "pc", Channel: "s*"}, {Host: "pc", Channel: "g*", QoS: rule.QoS{Class: rule.Command}},
		}, Muxes: rule.Muxes{r}}, pc)
		w.within(5*time.Second, "the mirrors", func() bool {
			return robot.mirror("pc.state").State == status.MirrorLive && robot.mirror("pc.goal").State == status.MirrorLive
		})
		state.put(1, 64)
		goal.put(1, 64)
		time.Sleep(time.Second)
		m := robot.mirror("ref")
		for i, want := range []string{"a mirror of pc without class command", "count by the clock of pc"} {
			if in := m.Mux.Inputs[i]; !strings.Contains(in.Reason, want) || in.Put != 0 {
				t.Errorf("got %+v, want the reason %q", in, want)
			}
		}
		if n, _ := robot.newest("ref"); n != 0 {
			t.Errorf("got frame %d, want none", n)
		}
	})
}

// snsFrame returns a frame with a header of golems/sns, made now and valid for some time.
func (h *host) snsFrame(number uint64, ahead, valid time.Duration) []byte {
	made := h.node.clocks.mirror.At + h.node.now() + ahead
	b := make([]byte, 64)
	binary.LittleEndian.PutUint64(b, uint64(made/time.Second))
	binary.LittleEndian.PutUint64(b[8:], uint64(valid))
	binary.LittleEndian.PutUint32(b[16:], uint32(made%time.Second))
	binary.LittleEndian.PutUint64(b[56:], number)
	return b
}

// putSns puts a frame with a header of golems/sns.
func (c *channel) putSns(h *host, number uint64, ahead, valid time.Duration) {
	c.t.Helper()
	if _, err := c.w.Put(h.snsFrame(number, ahead, valid)); err != nil {
		c.t.Fatal(err)
	}
	c.noticed(c.ch)
}

// newestSns returns the number in the newest frame of a channel with headers of golems/sns, 0 if there is none.
func (h *host) newestSns(name string) uint64 {
	v, err := h.see(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrDeadlineExceeded) {
		return 0
	}
	if err != nil {
		h.w.t.Fatal(err)
	}
	return binary.LittleEndian.Uint64(v.frame[56:])
}

func TestMuxObeysExpiryInStamps(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		safe := make([]byte, 64)
		binary.LittleEndian.PutUint64(safe[56:], safeNumber)
		r := rule.Mux{Output: "ref", Inputs: []rule.MuxInput{{Channel: "high", Expiry: "sns"}, {Channel: "low", Expiry: "sns"}}, Safe: rule.OnStale{File: "stop", Frame: string(safe)}}
		high, low := robot.channel("high", 4, 64), robot.channel("low", 4, 64)
		robot.run(Config{Muxes: rule.Muxes{r}})
		is := func(number uint64, limit time.Duration) {
			t.Helper()
			w.within(limit, "a frame in the output", func() bool { return robot.newestSns("ref") == number })
		}
		is(safeNumber, time.Second)
		if b := robot.views["ref"].frame; binary.LittleEndian.Uint64(b) == 0 {
			t.Error("the safe frame has no time, want that of its put")
		}
		low.putSns(robot, 1, 0, time.Second)
		is(1, 5*time.Millisecond)
		high.putSns(robot, 2, 0, 50*time.Millisecond)
		is(2, 5*time.Millisecond)
		low.putSns(robot, 3, 0, time.Second)
		time.Sleep(60 * time.Millisecond)
		is(2, 0) // low wins, and its newest frame was shadowed
		high.putSns(robot, 4, 200*time.Millisecond, time.Hour)
		time.Sleep(10 * time.Millisecond)
		is(2, 0)
		if in := robot.mirror("ref").Mux.Inputs[0]; !strings.Contains(in.Reason, "200 ms in the future") || in.Refused != 1 {
			t.Errorf("got %+v, want the frame refused since it is in the future", in)
		}
		overflow := robot.snsFrame(6, 0, 0)
		binary.LittleEndian.PutUint64(overflow, math.MaxUint64-5_000_000_000)
		binary.LittleEndian.PutUint64(overflow[8:], 1<<63+4e18) // time and duration are far below zero
		if _, err := high.w.Put(overflow); err != nil {
			t.Fatal(err)
		}
		high.noticed(high.ch)
		time.Sleep(10 * time.Millisecond)
		low.putSns(robot, 5, 0, time.Second)
		is(5, 5*time.Millisecond)
		found := 0
		for _, e := range w.events(robot) {
			if e.Kind == status.EventStampInFuture {
				found++
			}
		}
		if found != 1 {
			t.Errorf("got %d events stamp_in_future, want 1", found)
		}
		is(safeNumber, 2*time.Second)
		robot.stop()
		before := robot.views["ref"].r.Seq()
		robot.run(Config{Muxes: rule.Muxes{r}})
		time.Sleep(time.Second)
		if is(safeNumber, 0); robot.views["ref"].r.Seq() != before {
			t.Error("the safe frame was put again after a restart, though only its time differs")
		}
	})
}

func TestSuspensionExpiresMuxInputs(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, in := w.runMux(muxOf("teleop"))
		in["teleop"].put(1, 64)
		robot.follows("ref", 1, 5*time.Millisecond)
		robot.slept.Add(int64(time.Minute))
		in["teleop"].put(2, 64) // it may be of before the suspension
		robot.follows("ref", safeNumber, 5*time.Millisecond)
		in["teleop"].put(3, 64)
		robot.follows("ref", 3, 5*time.Millisecond)
	})
}

func TestMuxReopensReplacedInputs(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, in := w.runMux(muxOf("teleop", "planner"))
		for n := uint64(1); n < 40; n += 2 {
			in["teleop"].put(n, 64)
			robot.follows("ref", n, 5*time.Millisecond)
			in["teleop"].close()
			if err := robot.dir.Unlink("teleop"); err != nil {
				t.Fatal(err)
			}
			in["teleop"] = robot.channel("teleop", 8, 1024)
			time.Sleep(500 * time.Millisecond)
			in["planner"].put(n+1, 64)
			robot.follows("ref", n+1, 5*time.Millisecond)
		}
		in["teleop"].put(100, 6000) // larger than the data area of the output
		w.within(10*time.Millisecond, "a large frame", func() bool { return robot.mirror("ref").Bytes == 6000 })
	})
}

// A reload may change the rule while the robot walks.
func TestMuxRuleChangeKeepsInputsLive(t *testing.T) {
	inWorld(t, func(w *world) {
		r := muxOf("teleop", "planner")
		robot, in := w.runMux(r)
		in["planner"].put(1, 64)
		in["teleop"].put(2, 64)
		robot.follows("ref", 2, 5*time.Millisecond)
		puts := robot.views["ref"].ch.LastSeq()
		r.Hold, r.Inputs = time.Second, []rule.MuxInput{r.Inputs[0], {Channel: "walker", Live: time.Second}, r.Inputs[1]}
		if err := robot.node.Apply(Config{Muxes: rule.Muxes{r}}); err != nil {
			t.Fatal(err)
		}
		robot.stays("ref", 2, 50*time.Millisecond)
		for n := uint64(3); n < 50; n++ {
			in["teleop"].put(n, 64)
			robot.follows("ref", n, 5*time.Millisecond)
			time.Sleep(10 * time.Millisecond)
			for range n % 3 { // also two changes at once
				r.Hold += time.Second
				if err := robot.node.Apply(Config{Muxes: rule.Muxes{r}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := robot.views["ref"].ch.LastSeq() - puts; got != 47 {
			t.Errorf("%d frames were put, want each of the 47 once and no safe frame", got)
		}
		for _, e := range w.events(robot) {
			if e.Kind == status.EventRefused {
				t.Errorf("got event %+v", e)
			}
		}
		if err := robot.node.Apply(Config{}); err != nil {
			t.Fatal(err)
		}
		in["teleop"].put(100, 64)
		robot.stays("ref", 49, 500*time.Millisecond)
		if err := robot.node.Apply(Config{Muxes: rule.Muxes{r}}); err != nil {
			t.Fatal(err)
		}
		robot.follows("ref", safeNumber, time.Second)
	})
}

func (w *world) events(h *host) []status.Event {
	w.t.Helper()
	list, err := h.node.Events(context.Background(), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return list.Events
}

// The operator's host has not connected yet, so that the layout of its commands is unknown.
func TestMuxRunsWithoutInputOfUnknownLayout(t *testing.T) {
	inWorld(t, func(w *world) {
		const fields = "time:sec+nsec;duration:dur"
		r := muxOf("teleop", "planner")
		r.Inputs[0] = rule.MuxInput{Channel: "teleop", Expiry: fields}
		robot := w.host("robot", wire10ms)
		planner := robot.channel("planner", 4, 64)
		robot.run(Config{Muxes: rule.Muxes{r}, Mirrors: rule.Mirrors{{Host: "pc", Channel: "teleop", As: "teleop", QoS: rule.QoS{Class: rule.Command, Stamps: fields}}}})
		robot.follows("ref", safeNumber, time.Second)
		time.Sleep(time.Second)
		planner.put(1, 64)
		robot.follows("ref", 1, 5*time.Millisecond)
		if in := robot.mirror("ref").Mux.Inputs[0]; !strings.Contains(in.Reason, "no layout of teleop is known") {
			t.Errorf("got %+v, want the reason that the layout is unknown", in)
		}
	})
}

func TestMetadataOfMuxNamesInput(t *testing.T) {
	inWorld(t, func(w *world) {
		r := muxOf("teleop", "planner")
		r.Meta = true
		robot, in := w.runMux(r)
		is := func(input uint8) {
			t.Helper()
			w.within(5*time.Millisecond, "metadata", func() bool {
				v, err := robot.see("ref.meta")
				if err != nil {
					return false
				}
				m, err := status.ParseMeta(v.frame)
				return err == nil && m.Input == input
			})
		}
		is(0)
		in["planner"].put(1, 64)
		is(2)
		in["teleop"].put(2, 64)
		is(1)
		in["teleop"].close()
		if err := robot.dir.Unlink("teleop"); err != nil {
			t.Fatal(err)
		}
		in["teleop"] = robot.channel("teleop", 4, 8192)
		time.Sleep(50 * time.Millisecond)
		in["teleop"].put(3, 30_000) // the output gets a larger file
		is(1)
		time.Sleep(time.Second)
		is(0)
	})
}

func TestReloadRefusesCycleOfMuxes(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms).run(Config{})
		if err := robot.node.Mux(rule.Mux{Output: "b", Inputs: []rule.MuxInput{{Channel: "a", Live: time.Second}}}); err != nil {
			t.Fatal(err)
		}
		err := robot.node.Apply(Config{Muxes: rule.Muxes{{Output: "a", Inputs: []rule.MuxInput{{Channel: "b", Live: time.Second}}}}})
		if err == nil || !strings.Contains(err.Error(), "mux b, which a command has added: the output b is an input of another mux") {
			t.Errorf("got %v, want the reload refused", err)
		}
	})
}

func TestReloadWithMuxEndsPushIntoOutput(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{Accept: rule.GrantTo("*")})
		ref := pc.channel("ref", 4, 64)
		pc.run(Config{}, robot)
		time.Sleep(time.Second)
		if err := pc.node.Push(context.Background(), rule.Push{Channel: "ref", Host: "robot"}); err != nil {
			t.Fatal(err)
		}
		ref.put(7, 64)
		robot.follows("ref", 7, time.Second)
		if err := robot.node.Apply(Config{Accept: rule.GrantTo("*"), Muxes: rule.Muxes{muxOf("teleop")}}); err != nil {
			t.Fatal(err)
		}
		robot.follows("ref", safeNumber, time.Second)
		ref.put(8, 64)
		robot.stays("ref", safeNumber, time.Second)
		if m := robot.mirror("ref"); m.Mux == nil || m.Host != "robot" {
			t.Errorf("got %+v, want the output of the mux", m)
		}
	})
}

// Two daemons of one host run a mux with the same output.
func TestOnlyOneProcessRunsMux(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, in := w.runMux(muxOf("teleop"))
		other := w.host("other", wire10ms)
		other.dir = robot.dir
		other.run(Config{Muxes: rule.Muxes{muxOf("teleop")}})
		w.within(time.Second, "a refusal", func() bool {
			m := other.mirror("ref")
			return m.State == status.MirrorRefused && strings.Contains(m.Reason, "another process runs a mux with this output")
		})
		robot.stop()
		for n := uint64(2); n < 100; n++ {
			in["teleop"].put(n, 64)
			time.Sleep(5 * time.Millisecond)
			if number, _ := robot.newest("ref"); number == n {
				return
			}
		}
		t.Error("the other daemon puts no frame")
	})
}

func TestMuxOutputHasNoOtherWriter(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{Muxes: rule.Muxes{muxOf("teleop")}, Accept: rule.GrantTo("*")})
		pc.channel("ref", 4, 64).put(7, 64)
		pc.run(Config{}, robot)
		err := pc.node.Push(context.Background(), rule.Push{Channel: "ref", Host: "robot"})
		if err == nil || !strings.Contains(err.Error(), "ref is the output of a mux of robot") {
			t.Errorf("push onto the output: got %v", err)
		}
		if err := robot.node.Mirror(rule.Mirror{Host: "pc", Channel: "ref", As: "ref"}); err == nil {
			t.Error("a mirror onto the output was requested without an error")
		}
		if _, err := robot.node.Claim("ref", localach.Tag{}); err == nil {
			t.Error("another program may write the output")
		}
		if err := robot.node.Mux(rule.Mux{Output: "teleop", Inputs: []rule.MuxInput{{Channel: "x", Live: time.Second}}}); err == nil || !strings.Contains(err.Error(), "is an input of another mux") {
			t.Errorf("a mux onto an input: got %v", err)
		}
		robot.stays("ref", safeNumber, time.Second)
	})
}

// The output is a channel of its host: others may read it, and see its frames.
func TestMuxOutputIsExported(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, in := w.runMux(muxOf("teleop"))
		pc := w.host("pc", wire10ms).run(Config{Mirrors: rule.Mirrors{{Host: "robot", Channel: "ref"}}}, robot)
		pc.follows("robot.ref", safeNumber, 5*time.Second)
		in["teleop"].put(1, 64)
		pc.follows("robot.ref", 1, 50*time.Millisecond)
		if err := robot.node.Unmux("ref"); err != nil {
			t.Fatal(err)
		}
		in["teleop"].put(2, 64)
		robot.stays("ref", 1, time.Second)
		if err := robot.node.Unmux("ref"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a mux that has ended: got %v, want %v", err, fs.ErrNotExist)
		}
	})
}

// The last frame of a former holder is still in the ring, and has not expired.
func TestMuxInputForgetsFramesOfFormerHolder(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, a, b := w.host("robot", wire10ms), w.host("a", wire10ms), w.host("b", wire10ms)
		r := rule.Mux{Output: "ref", Inputs: []rule.MuxInput{{Channel: "goal", Expiry: "sns", Operator: true}}}
		accept := rule.GrantTo("goal")
		accept[0].QoS, accept[0].Operator = rule.QoS{Class: rule.Command, Budget: time.Second, Stamps: "sns"}, &rule.Operator{}
		robot.run(Config{Muxes: rule.Muxes{r}, Accept: accept, KeepLocks: func([]byte) error { return nil }})
		goals := map[*host]*channel{}
		for _, h := range []*host{a, b} {
			goals[h] = h.channel("goal", 4, 64)
			h.run(Config{Pushes: rule.Pushes{{Channel: "goal", Host: "robot"}}}, robot)
		}
		time.Sleep(5 * time.Second) // for the links and the clock synchronization
		of := rule.Address{Host: "robot", Channel: "goal"}
		take := func(h *host) {
			t.Helper()
			if _, err := h.node.Take(context.Background(), of, 0, false); err != nil {
				t.Fatal(err)
			}
			w.within(time.Second, "the push", func() bool { m := robot.mirror("goal"); return m.State == status.MirrorLive && m.Host == h.name })
			time.Sleep(100 * time.Millisecond)
		}
		take(a)
		goals[a].putSns(a, 1, 0, time.Hour)
		w.within(time.Second, "the frame of a", func() bool { return robot.newestSns("ref") == 1 })
		if _, err := a.node.Release(context.Background(), of, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		before := robot.views["ref"].ch.LastSeq()
		take(b)
		time.Sleep(time.Second)
		robot.newestSns("ref")
		if got := robot.views["ref"].ch.LastSeq() - before; got != 0 {
			t.Errorf("%d frames of the former holder were put again", got)
		}
		goals[b].putSns(b, 2, 0, time.Hour)
		w.within(time.Second, "the frame of b", func() bool { return robot.newestSns("ref") == 2 })
	})
}

// The input demands that a host holds its operator lock. hold does not delay the next holder.
func TestMuxInputDemandsOperatorLock(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		goal := pc.channel("goal", 4, 64)
		r := rule.Mux{
			Output: "ref", Hold: time.Minute, Safe: rule.OnStale{File: "stop", Frame: string(frame(safeNumber, 64))},
			Inputs: []rule.MuxInput{{Channel: "goal", Live: time.Minute, Operator: true}},
		}
		accept := rule.GrantTo("goal")
		accept[0].QoS, accept[0].Operator = rule.QoS{Class: rule.Command, Budget: time.Second}, &rule.Operator{Hosts: []string{"pc"}}
		robot.run(Config{Muxes: rule.Muxes{r}, Accept: accept, KeepLocks: func([]byte) error { return nil }})
		pc.run(Config{Pushes: rule.Pushes{{Channel: "goal", Host: "robot"}}}, robot)
		robot.follows("ref", safeNumber, time.Second)
		time.Sleep(5 * time.Second) // for the link and the clock synchronization
		of := rule.Address{Host: "robot", Channel: "goal"}
		for n := uint64(1); n < 4; n++ {
			goal.put(10*n, 64)
			robot.stays("ref", safeNumber, 100*time.Millisecond)
			if in := robot.mirror("ref").Mux.Inputs[0]; in.Reason != "no host holds its operator lock" {
				t.Errorf("got %+v, want the reason that no host holds the lock", in)
			}
			if _, err := pc.node.Take(context.Background(), of, 0, false); err != nil {
				t.Fatal(err)
			}
			w.within(time.Second, "the push", func() bool { return robot.mirror("goal").State == status.MirrorLive })
			goal.put(10*n+1, 64)
			robot.follows("ref", 10*n+1, 100*time.Millisecond)
			if _, err := pc.node.Release(context.Background(), of, ""); err != nil {
				t.Fatal(err)
			}
			robot.follows("ref", safeNumber, 100*time.Millisecond)
		}
	})
}
