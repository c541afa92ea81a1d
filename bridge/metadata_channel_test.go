package bridge

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

const flowMeta = flowName + rule.MetaSuffix

// metas waits until the node is idle and returns the frames of a metadata channel, oldest first.
func (h *host) metas(name string) (list []status.Meta) {
	h.w.t.Helper()
	synctest.Wait()
	return metasIn(h.w.t, h.dir, name)
}

func metasIn(t *testing.T, dir localach.Dir, name string) (list []status.Meta) {
	t.Helper()
	ch, err := dir.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	r, b := ch.Reader(), make([]byte, status.MergeMetaSize)
	for {
		n, err := r.TryNextOldest(b)
		if err != nil {
			return list
		}
		m, err := status.ParseMeta(b[:n])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
}

// meta returns the newest frame of a metadata channel.
func (h *host) meta(name string) status.Meta {
	h.w.t.Helper()
	list := h.metas(name)
	if len(list) == 0 {
		h.w.t.Fatalf("%s has no frame", name)
	}
	return list[len(list)-1]
}

// monotonic returns the time of the host's CLOCK_MONOTONIC at t, as if time were not virtual.
func (h *host) monotonic(t time.Time) time.Duration {
	return h.node.clocks.mirror.At + t.Sub(h.node.clocks.start)
}

func TestMetadataChannelHasExactAge(t *testing.T) {
	inFlow(t, "delay=5ms", rule.QoS{Meta: true, Deadline: 70 * milli}, 64, func(f *flow) {
		time.Sleep(time.Second) // for the clock synchronization
		for range 3 {
			f.put()
			put := time.Now()
			f.holds(f.number, time.Second)
			m, state := f.pc.meta(flowMeta), f.pc.mirror(flowName)
			if off := m.Captured - f.pc.monotonic(put); off != 0 || m.Uncertainty < 5*milli || m.Uncertainty > 5010*time.Microsecond {
				t.Errorf("captured %v ± %v after the put, want 0 ± half a round trip", off, m.Uncertainty)
			}
			if age := status.Ms(f.pc.monotonic(time.Now()) - m.Captured); *state.AgeMs != age {
				t.Errorf("got an age of %v ms in the metadata channel, want the %v of status", age, *state.AgeMs)
			}
			if way := m.Put - f.pc.monotonic(put); way != 5*milli {
				t.Errorf("put into the mirror %v after the robot's put, want 5 ms", way)
			}
			epoch := f.data.ch.Epoch()
			if m.Link != status.MetaUp || m.Stale || m.Safe || m.Epoch != epoch || m.Seq != f.number || m.MirrorSeq != f.copy.LastSeq() || m.Deadline != 70*milli {
				t.Errorf("got %+v for frame %d of epoch %d", m, f.number, epoch)
			}
		}
	})
}

// The first frame arrives before the robot's clock is known.
func TestMetadataChannelGetsAgeOfFirstFrame(t *testing.T) {
	inFlow(t, "delay=5ms", rule.QoS{Meta: true}, 64, func(f *flow) {
		f.put()
		put := time.Now()
		f.holds(1, time.Second)
		if m := f.pc.meta(flowMeta); m.Seq != 1 || m.Captured != 0 || m.Uncertainty != 0 {
			t.Fatalf("got %+v, want frame 1 of unknown age", m)
		}
		f.within(time.Second, "age", func() bool { return f.pc.meta(flowMeta).Captured != 0 })
		if m := f.pc.meta(flowMeta); m.Captured != f.pc.monotonic(put) || m.Seq != 1 {
			t.Errorf("frame %d is from %v, want %v", m.Seq, m.Captured, f.pc.monotonic(put))
		}
	})
}

func TestMetadataChannelShowsLinkState(t *testing.T) {
	inFlow(t, "delay=5ms", rule.QoS{Meta: true, Deadline: 100 * milli}, 64, func(f *flow) {
		time.Sleep(time.Second)
		f.put()
		f.holds(1, time.Second)
		put := f.pc.meta(flowMeta).Put
		time.Sleep(95 * milli)
		if m := f.pc.meta(flowMeta); m.Stale {
			t.Error("stale before the deadline")
		}
		time.Sleep(time.Second)
		f.put()
		f.holds(2, time.Second)
		told := len(f.pc.metas(flowMeta))
		f.change("cut")
		f.within(2*time.Second, "silent link", func() bool { return f.pc.link().State == status.LinkSilent })
		if m := f.pc.meta(flowMeta); m.Link != status.MetaSilent || !m.Stale || m.Seq != 2 {
			t.Errorf("got %+v while the link is silent", m)
		}
		f.within(11*time.Second, "no link", func() bool { return f.pc.link().State == "" })
		if m := f.pc.meta(flowMeta); m.Link != status.MetaDown || m.Captured == 0 {
			t.Errorf("got %+v without a link", m)
		}
		f.change("up")
		f.within(5*time.Second, "mirror live", func() bool { return f.pc.meta(flowMeta).Link == status.MetaUp })
		f.put()
		f.holds(3, time.Second)
		var got []string
		for _, m := range f.pc.metas(flowMeta)[told:] {
			text := m.Link.String()
			if m.Stale {
				text += " stale"
			}
			got = append(got, text)
		}
		if want := "up stale, silent stale, down stale, up stale, up"; strings.Join(got, ", ") != want {
			t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
		}
		for _, m := range f.pc.metas(flowMeta) {
			if m.Seq == 1 && m.Put != put {
				t.Errorf("frame 1 was put at %v, then at %v", put, m.Put)
			}
		}
		f.robot.stop()
		f.within(time.Second, "down", func() bool { return f.pc.meta(flowMeta).Link == status.MetaDown })
	})
}

func TestMetadataChannelShowsRefusal(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.channel("imu", 16, 64).put(1, 64)
		robot.run(Config{})
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", QoS: rule.QoS{Meta: true, Compress: rule.CompressNone}}}}, robot)
		pc.follows("robot.imu", 1, 2*time.Second)
		// The robot's rules change: a rule that limits the rate excludes mode every.
		rules := robot.cfg
		rules.Export = rule.Grants{{Channels: []string{"*"}, QoS: rule.QoS{MaxRate: 1000}, From: "export[0]"}}
		if err := robot.node.Apply(rules); err != nil {
			t.Fatal(err)
		}
		if err := pc.node.Mirror(rule.Mirror{Host: "robot", Channel: "imu", QoS: rule.QoS{Meta: true, Mode: rule.Every}}); err != nil {
			t.Fatal(err)
		}
		w.within(3*time.Second, "refusal", func() bool { return pc.mirror("robot.imu").State == status.MirrorRefused })
		if m := pc.meta("robot.imu.meta"); m.Link != status.MetaRefused || m.Seq != 1 {
			t.Errorf("got %+v", m)
		}
	})
}

func TestMetadataChannelMarksSafeFrame(t *testing.T) {
	qos := rule.QoS{Meta: true, Class: rule.Command, Deadline: 100 * milli, OnStale: rule.OnStale{File: "stop", Frame: "stop!"}}
	inFlow(t, "delay=5ms", qos, 64, func(f *flow) {
		time.Sleep(time.Second)
		f.put()
		f.holds(1, time.Second)
		f.within(time.Second, "safe frame", func() bool { return f.pc.mirror(flowName).Safe == 1 })
		m := f.pc.meta(flowMeta)
		if !m.Safe || !m.Stale || m.Captured != 0 || m.MirrorSeq != f.copy.LastSeq() || m.Seq != 1 {
			t.Errorf("got %+v of the safe frame, which is frame %d of the mirror", m, f.copy.LastSeq())
		}
		f.put()
		f.within(time.Second, "next command", func() bool { return f.pc.meta(flowMeta).Seq == 2 })
		if m := f.pc.meta(flowMeta); m.Safe || m.Stale || m.Captured == 0 {
			t.Errorf("got %+v of the command after it", m)
		}
	})
}

func TestMetadataChannelFollowsOption(t *testing.T) {
	inFlow(t, "delay=5ms", rule.QoS{}, 64, func(f *flow) {
		there := func() bool {
			_, err := os.Stat(filepath.Join(string(f.pc.dir), "achshm-"+flowMeta))
			return err == nil
		}
		f.put()
		f.holds(1, time.Second)
		if there() {
			t.Fatal("got a metadata channel without the option, want none")
		}
		sub := f.subscription()
		f.requalify(rule.QoS{Meta: true})
		f.within(time.Second, "companion", there)
		f.put()
		f.holds(2, time.Second)
		if m := f.pc.meta(flowMeta); m.Seq != 2 || m.Link != status.MetaUp {
			t.Errorf("got %+v, want frame 2", m)
		}
		f.requalify(rule.QoS{})
		f.within(time.Second, "no companion", func() bool { return !there() })
		f.put()
		f.holds(3, time.Second)
		if f.subscription() != sub {
			t.Error("got another subscription, want the former one")
		}
		f.requalify(rule.QoS{Meta: true})
		f.within(time.Second, "companion", there)
		if err := f.pc.node.Unmirror(rule.Mirror{Host: "robot", Channel: "data"}, Remove); err != nil {
			t.Fatal(err)
		}
		// The rule of the configuration makes the mirror again at once, without metadata.
		f.within(time.Second, "no companion", func() bool { return !there() })
	})
}

// The times in a metadata channel are by the host's clock. They stay valid after the daemon ends,
// but not after a reboot.
func TestMetadataChannelSurvivesDaemonRestart(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		imu := robot.channel("imu", 16, 64)
		robot.run(Config{})
		cfg := Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", QoS: rule.QoS{Meta: true, Compress: rule.CompressNone}, FileMode: 0o660}}}
		pc.run(cfg, robot)
		w.within(2*time.Second, "mirror live", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
		time.Sleep(time.Second)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, 2*time.Second)
		before := pc.meta("robot.imu.meta")
		pc.stop()
		left := pc.meta("robot.imu.meta")
		if left.Link != status.MetaDown || left.Captured != before.Captured {
			t.Errorf("got %+v when the daemon had ended, of %+v", left, before)
		}
		pc.run(cfg, robot)
		w.within(2*time.Second, "mirror live", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
		if m := pc.meta("robot.imu.meta"); m.Link != status.MetaUp || m.Captured != before.Captured || m.Seq != 1 || m.MirrorSeq != before.MirrorSeq {
			t.Errorf("got %+v of the same frame, want it as %+v", m, before)
		}
		st, err := os.Stat(filepath.Join(string(pc.dir), "achshm-robot.imu.meta"))
		if err != nil || st.Mode().Perm() != 0o660 {
			t.Errorf("got mode %v, %v, want 0660 as the mirror", st.Mode(), err)
		}
	})
}

func TestMetadataChannelIsOfferedOnlyByExactName(t *testing.T) {
	for name, c := range map[string]struct {
		export rule.Grants
		want   bool
	}{
		"everything":   {rule.GrantTo("*"), false},
		"a pattern":    {rule.GrantTo("robot.imu.met?"), false},
		"its own name": {rule.GrantTo("robot.imu.meta"), true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc, third := w.host("robot", wire10ms), w.host("pc", wire10ms), w.host("third", wire10ms)
				robot.channel("imu", 16, 64).put(1, 64)
				robot.run(Config{})
				pc.run(Config{Export: c.export, Relay: []string{"*"}, Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", QoS: rule.QoS{Meta: true, Compress: rule.CompressNone}}}}, robot)
				third.run(Config{Mirrors: []rule.Mirror{{Host: "pc", Channel: "*"}}}, pc)
				pc.follows("robot.imu", 1, 2*time.Second)
				third.follows("pc.robot.imu", 1, 2*time.Second)
				time.Sleep(time.Second)
				if got := third.mirror("pc.robot.imu.meta").State == status.MirrorLive; got != c.want {
					t.Errorf("the companion is mirrored by another host: %v, want %v", got, c.want)
				}
				if c.want {
					if m := third.meta("pc.robot.imu.meta"); m.Seq != 1 {
						t.Errorf("got %+v over there", m)
					}
				}
			})
		})
	}
}

func TestMirrorNameTooLongForMetadataIsRefused(t *testing.T) {
	long := strings.Repeat("c", 53) // 59 bytes with the prefix robot.
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.channel(long, 16, 64).put(1, 64)
		robot.channel(long[1:], 16, 64).put(1, 64)
		robot.run(Config{})
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", QoS: rule.QoS{Meta: true}}}}, robot)
		pc.follows("robot."+long[1:], 1, 2*time.Second)
		m := pc.mirror("robot." + long)
		if m.State != status.MirrorRefused || !strings.Contains(m.Reason, "longer than 58 bytes") || !strings.Contains(m.Reason, "as=NAME") {
			t.Errorf("got %s: %s", m.State, m.Reason)
		}
	})
	if _, err := rule.ParseMirror("robot/"+long+",meta=true", nil); err == nil || !strings.Contains(err.Error(), "longer than 58 bytes") {
		t.Errorf("request for the mirror: got %v, want a refusal", err)
	}
}

// A mirror with the name of another mirror's metadata channel must not write into that file.
func TestMirrorDoesNotTakeFileOfMetadataChannel(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.channel("imu", 16, 64).put(1, 64)
		robot.run(Config{})
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu", QoS: rule.QoS{Meta: true, Compress: rule.CompressNone}}, {Host: "robot", Channel: "imu.meta"}}}, robot)
		pc.follows("robot.imu", 1, 2*time.Second)
		robot.channel("imu.meta", 16, 64).put(1, 64)
		w.within(2*time.Second, "refusal", func() bool { return pc.mirror("robot.imu.meta").State == status.MirrorRefused })
		if m := pc.mirror("robot.imu.meta"); !strings.Contains(m.Reason, "the metadata channel of another mirror") {
			t.Errorf("got %s", m.Reason)
		}
		if m := pc.meta("robot.imu.meta"); m.Seq != 1 {
			t.Errorf("got %+v", m)
		}
	})
}

func TestMetaMatchesItsLayout(t *testing.T) {
	m := status.Meta{Link: status.MetaSilent, Stale: true, Safe: true, Epoch: 0x0101, Seq: 2, MirrorSeq: 3, Captured: 4, Put: 5, Uncertainty: 6, Deadline: 7}
	b := m.Append(nil)
	want := "AMTA\x01\x02\x03\x00"
	for _, v := range []byte{1, 2, 3, 4, 5, 6, 7} {
		word := []byte{v, 0, 0, 0, 0, 0, 0, 0}
		if v == 1 {
			word[1] = 1
		}
		want += string(word)
	}
	if string(b) != want {
		t.Errorf("got %x, want %x", b, want)
	}
	if got, err := status.ParseMeta(b); err != nil || got != m {
		t.Errorf("got %+v, %v", got, err)
	}
	other := append([]byte{}, b...)
	other[4] = 2
	for _, bad := range [][]byte{b[:63], append(b, 0), []byte(strings.Repeat("x", 64)), other} {
		if _, err := status.ParseMeta(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func FuzzParseMeta(f *testing.F) {
	f.Add(status.Meta{Link: status.MetaUp, Stale: true, Input: 1, Epoch: 1, Seq: 2, MirrorSeq: 3, Captured: 4, Put: 5, Uncertainty: 6, Deadline: 7}.Append(nil))
	f.Add([]byte("AMTA"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := status.ParseMeta(b)
		if err != nil {
			return
		}
		again := m.Append(nil)
		b[6] &= status.MetaStale | status.MetaSafe // flags of later versions are unknown here
		if !bytes.Equal(again, b) {
			t.Errorf("got %x, want %x", again, b)
		}
	})
}
