package bridge

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// mergeOf returns a configuration that merges the channel event of all hosts.
func mergeOf() Config {
	return Config{Mirrors: []rule.Mirror{{Host: "*", Channel: "event", Merge: true, QoS: rule.QoS{Mode: rule.Every}}}}
}

// eventHosts are hosts of a world with a channel event. The frames of host i are called 1000·(i+1)+1, 1000·(i+1)+2, …
type eventHosts struct {
	w      *world
	pc     *host
	hosts  []*host
	events []*channel
	put    []uint64
}

func newEventHosts(w *world, n int) *eventHosts {
	e := &eventHosts{w: w, pc: w.host("pc", wire10ms), put: make([]uint64, n)}
	for i := range n {
		h := w.host(fmt.Sprintf("robot%d", i+1), wire10ms)
		e.events = append(e.events, h.channel("event", 64, 64))
		e.hosts = append(e.hosts, h.run(Config{}))
	}
	return e
}

func (e *eventHosts) puts(host, frames int) {
	for range frames {
		e.put[host]++
		e.events[host].put(1000*uint64(host+1)+e.put[host], 64)
	}
}

// output returns the frames of the output by origin, and checks that its metadata names the origin and the number of
// each of them. newest is true once the output has the newest frame of each host.
func (e *eventHosts) output(name string) (frames [][]uint64) {
	e.w.t.Helper()
	origins := map[uint64]status.Meta{}
	for _, m := range e.pc.metas(name + ".meta") {
		if m.MirrorSeq == 0 {
			continue
		}
		if before, ok := origins[m.MirrorSeq]; ok && (before.Origin != m.Origin || before.Seq != m.Seq) {
			e.w.t.Fatalf("frame %d of %s is frame %d of %s, and also frame %d of %s", m.MirrorSeq, name, before.Seq, before.Origin, m.Seq, m.Origin)
		}
		origins[m.MirrorSeq] = m
	}
	ch, err := e.pc.dir.Open(name)
	if err != nil {
		e.w.t.Fatal(err)
	}
	defer ch.Close()
	frames = make([][]uint64, len(e.hosts))
	r, buf := ch.Reader(), make([]byte, 1<<16)
	for {
		if _, err := r.NextOldest(buf, 0); err != nil {
			return frames
		}
		number := binary.LittleEndian.Uint64(buf)
		i := int(number/1000) - 1
		frames[i] = append(frames[i], number%1000)
		if m := origins[r.Seq()]; m.Origin != e.hosts[i].name || m.Seq != number%1000 {
			e.w.t.Fatalf("metadata of frame %d of %s, which is frame %d of %s: got %+v", r.Seq(), name, number%1000, e.hosts[i].name, m)
		}
	}
}

// hasAll waits until the output has the newest frame of each host, and checks that it has every frame once, in the
// order of its host.
func (e *eventHosts) hasAll(name string) {
	e.w.t.Helper()
	e.w.within(20*time.Second, "the newest frames in "+name, func() bool {
		if _, err := e.pc.newestMeta(name); err != nil {
			return false
		}
		for i, list := range e.output(name) {
			if e.put[i] != 0 && (len(list) == 0 || list[len(list)-1] != e.put[i]) {
				return false
			}
		}
		return true
	})
	for i, list := range e.output(name) {
		consecutive(e.w.t, list, 1, e.put[i])
	}
}

// newestMeta returns an error while the output and its metadata channel do not exist.
func (h *host) newestMeta(name string) (localach.Geometry, error) {
	ch, err := h.dir.Open(name + ".meta")
	if err != nil {
		return localach.Geometry{}, err
	}
	defer ch.Close()
	return ch.Geometry(), nil
}

func TestMergeHasEachFrameOnceInItsHostsOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		e := newEventHosts(w, 3)
		e.puts(0, 3)
		e.pc.run(mergeOf(), e.hosts...)
		for range 10 {
			for i := range e.hosts {
				e.puts(i, 1)
			}
			time.Sleep(5 * time.Millisecond)
		}
		e.hasAll("all.event")

		w.change("robot2", "cut")
		time.Sleep(15 * time.Second)
		e.puts(1, 5)
		e.puts(0, 2)
		e.puts(2, 2)
		w.within(time.Second, "frames of the other hosts", func() bool {
			list := e.output("all.event")
			return uint64(len(list[0])) == e.put[0] && uint64(len(list[2])) == e.put[2]
		})
		w.change("robot2", "up")
		e.hasAll("all.event")

		e.pc.stop() // at this time the output holds frames of all hosts
		e.puts(0, 3)
		e.puts(2, 1)
		e.pc.run(mergeOf(), e.hosts...)
		e.hasAll("all.event")

		e.hosts[2].stop()
		e.puts(2, 4)
		e.puts(0, 1)
		e.hosts[2].run(Config{})
		e.hasAll("all.event")
	})
}

// The mirror of each host counts the frames of that host, and neither the output nor another mirror counts them too.
func TestMergeCountsFramesOfEachHost(t *testing.T) {
	inWorld(t, func(w *world) {
		e := newEventHosts(w, 2)
		e.pc.run(mergeOf(), e.hosts...)
		w.within(5*time.Second, "both mirrors", func() bool {
			return e.pc.mirror("all.event/robot1").State == status.MirrorLive && e.pc.mirror("all.event/robot2").State == status.MirrorLive
		})
		e.puts(0, 20)
		e.puts(1, 7)
		e.hasAll("all.event")
		w.within(3*time.Second, "the counters", func() bool {
			one, two := e.pc.mirror("all.event/robot1"), e.pc.mirror("all.event/robot2")
			return one.Offered == 20 && one.Delivered == 20 && two.Offered == 7 && two.Delivered == 7
		})
		output := e.pc.mirror("all.event")
		if output.Offered != 0 || output.State != status.MirrorLive || output.Merge == nil || *output.Merge != (status.Merge{Mirrors: 2, Fed: 2}) {
			t.Errorf("output: got %+v with %+v, want it live, fed by 2 hosts and without counters", output, output.Merge)
		}
		if m := e.pc.mirror("all.event/robot1"); m.Into != "all.event" || m.Host != "robot1" || m.Channel != "event" {
			t.Errorf("mirror: got %+v, want robot1/event into all.event", m)
		}
		ch, err := e.pc.dir.Open("all.event")
		if err != nil {
			t.Fatal(err)
		}
		defer ch.Close()
		writer := ch.Writer()
		defer writer.Close()
		if _, err := writer.Put(frame(1, 64)); err != nil {
			t.Fatal(err)
		}
		w.within(3*time.Second, "the foreign writer", func() bool {
			m := e.pc.mirror("all.event")
			return m.State == status.MirrorForeignWriter && m.Foreign == 1
		})
	})
}

// A frame that does not fit gets a larger file, as in a mirror, and the numbers in the metadata are then those of the
// new file.
func TestMergeGetsLargerFileForLargerFrames(t *testing.T) {
	inWorld(t, func(w *world) {
		e := newEventHosts(w, 2)
		large := w.host("robot3", wire10ms)
		e.events, e.put = append(e.events, large.channel("event", 16, 8192)), append(e.put, 0)
		e.pc.run(mergeOf(), e.hosts...)
		e.puts(0, 2)
		e.puts(1, 2)
		e.hasAll("all.event")
		e.hosts = append(e.hosts, large.run(Config{}))
		e.pc.node.SetPeers(asPeers(e.hosts))
		e.put[2]++
		e.events[2].put(3001, 64*64+1)
		e.puts(0, 1)
		w.within(5*time.Second, "a larger file", func() bool { return e.pc.mirror("all.event").Replaced == 1 })
		w.within(5*time.Second, "the large frame", func() bool { return len(e.output("all.event")[2]) == 1 })
		e.pc.stop()
		e.pc.run(mergeOf(), e.hosts...)
		e.puts(1, 1)
		w.within(5*time.Second, "frame 3 of robot2", func() bool {
			list := e.output("all.event")[1]
			return len(list) > 0 && list[len(list)-1] == 3
		})
		if list := e.output("all.event"); len(list[1]) != 1 || len(list[2]) != 1 {
			t.Errorf("got frames %v in the new file, want one each of robot2 and robot3: the old file had the others", list)
		}
	})
}

func TestReloadAddsAndRemovesMerge(t *testing.T) {
	inWorld(t, func(w *world) {
		e := newEventHosts(w, 2)
		cfg := Config{Mirrors: []rule.Mirror{{Host: "*", Channel: "event"}}}
		e.pc.run(cfg, e.hosts...)
		e.puts(0, 1)
		e.pc.follows("robot1.event", 1001, 2*time.Second)
		if err := e.pc.node.Apply(Config{Mirrors: append(mergeOf().Mirrors, cfg.Mirrors...)}); err != nil {
			t.Fatal(err)
		}
		e.puts(0, 2)
		e.puts(1, 2)
		e.hasAll("all.event")
		if m := e.pc.mirror("robot1.event"); m.Name != "" {
			t.Errorf("robot1.event: got %+v, want no mirror of a channel that a merge names", m)
		}
		if _, err := e.pc.node.MirrorTemporarily("robot1", "event"); err == nil || !strings.Contains(err.Error(), "all.event") {
			t.Errorf("a viewer of robot1/event: got %v, want the name of the output", err)
		}
		if err := e.pc.node.Mirror(cfg.Mirrors[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if m := e.pc.mirror("all.event/robot1"); m.State != status.MirrorLive {
			t.Errorf("all.event/robot1 beside a request with a pattern: got %s, want it live: a merge is a request of the configuration", m.State)
		}
		if err := e.pc.node.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		e.pc.follows("robot1.event", 1003, 2*time.Second)
		for _, m := range e.pc.node.Status().Mirrors {
			if strings.HasPrefix(m.Name, "all.") {
				t.Errorf("after the merge has ended: got %s, %s", m.Name, m.State)
			}
		}
		if m := e.pc.meta("all.event.meta"); m.Link != status.MetaDown {
			t.Errorf("metadata after the merge has ended: got link %s, want down", m.Link)
		}
	})
}

func TestMergeOutputHasNoOtherWriter(t *testing.T) {
	inWorld(t, func(w *world) {
		e := newEventHosts(w, 1)
		cfg := mergeOf()
		cfg.Accept = rule.GrantTo("*")
		e.pc.run(cfg, e.hosts...)
		e.puts(0, 1)
		e.hasAll("all.event")
		err := e.hosts[0].node.Push(context.Background(), rule.Push{Channel: "event", Host: "pc", As: "all.event"})
		if err == nil || !strings.Contains(err.Error(), "all.event is the output of a merge of pc") {
			t.Errorf("a push into the output: got %v, want an error", err)
		}
		err = e.pc.node.Mirror(rule.Mirror{Host: "robot1", Channel: "event", As: "all.event"})
		if err == nil || !strings.Contains(err.Error(), "all.event is the output of a merge") {
			t.Errorf("a mirror with the name of the output: got %v, want an error", err)
		}
		if err := e.pc.node.Mirror(rule.Mirror{Host: "robot1", Channel: "event"}); err != nil {
			t.Fatal(err)
		}
		e.pc.follows("robot1.event", 1001, 2*time.Second)
		if m := e.pc.mirror("all.event/robot1"); m.Name != "" {
			t.Errorf("after a request for robot1/event: got %s in the merge, want it out", m.Name)
		}
	})
}

// If a merge took the outputs of other hosts' merges, frames would circulate between the hosts.
func TestMergeTakesNoMirrors(t *testing.T) {
	inWorld(t, func(w *world) {
		e := newEventHosts(w, 1)
		other := w.host("other", wire10ms)
		cfg := mergeOf()
		cfg.Mirrors[0].As, cfg.Relay = "event", []string{"*"}
		e.pc.run(cfg, e.hosts[0])
		e.puts(0, 3)
		e.hasAll("event")
		other.run(cfg, e.hosts[0], e.pc)
		e.pc.node.SetPeers(asPeers([]*host{e.hosts[0], other}))
		w.within(5*time.Second, "the output of the other host", func() bool { n, _ := other.newest("event"); return n == 1003 })
		e.puts(0, 5)
		e.hasAll("event")
		time.Sleep(time.Second)
		if got := other.mirror("event").Merge; *got != (status.Merge{Mirrors: 1, Fed: 1}) {
			t.Errorf("merge of other: got %+v, want only robot1", *got)
		}
		e.hasAll("event")
		plain := w.host("plain", wire10ms).run(every(e.pc, "event"), e.pc)
		w.within(5*time.Second, "a mirror of the merge", func() bool { n, _ := plain.newest("pc.event"); return n == 1008 })
	})
}
