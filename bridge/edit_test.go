package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/layout"
	"achbridge/bridge/layouts"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/testnet/need"
	"achbridge/wire"
)

// gainsLayout is the layout of frames that begin with a counter and a gain.
func gainsLayout(t *testing.T) layouts.Rules {
	t.Helper()
	encoded, err := (&layout.Layout{Name: "gains", Size: 64, Fields: []layout.Field{
		{Name: "count", Type: layout.Uint64},
		{Name: "kp", Type: layout.Double, Offset: 8},
		{Name: "rest", Type: layout.Bytes, Offset: 16, Size: 48},
	}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return layouts.Rules{{Channels: "*", Encoded: encoded}}
}

// tuning is a robot with the channel gains, whose fields a PC may change.
func (w *world) tuning(change func(*Config)) (robot, pc *host, gains *channel) {
	w.t.Helper()
	robot, pc = w.host("robot", wire10ms), w.host("pc", wire10ms)
	gains = robot.channel("gains", 4, 64)
	cfg := Config{Layouts: gainsLayout(w.t), Accept: rule.GrantTo("gains*"), Adopt: []string{"gains"}}
	if change != nil {
		change(&cfg)
	}
	robot.run(cfg)
	pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}, robot)
	w.within(time.Second, "link", func() bool { return len(pc.node.Status().Links) == 1 })
	return robot, pc, gains
}

func (h *host) edits(channel string, fields ...wire.FieldEdit) (status.Edit, error) {
	return h.node.Edit(h.w.t.Context(), rule.Address{Host: "robot", Channel: channel}, fields)
}

// newestGains returns the fields of the newest frame.
func (c *channel) newestGains() (count uint64, kp float64) {
	c.t.Helper()
	frame := make([]byte, 64)
	if _, err := c.ch.Reader().Last(frame); err != nil {
		c.t.Fatal(err)
	}
	return binary.LittleEndian.Uint64(frame), math.Float64frombits(binary.LittleEndian.Uint64(frame[8:]))
}

func (c *channel) putGains(count uint64, kp float64) {
	c.t.Helper()
	frame := make([]byte, 64)
	binary.LittleEndian.PutUint64(frame, count)
	binary.LittleEndian.PutUint64(frame[8:], math.Float64bits(kp))
	if _, err := c.w.Put(frame); err != nil {
		c.t.Fatal(err)
	}
}

func TestEditPutsChangedFrameAtOrigin(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, gains := w.tuning(nil)
		gains.putGains(7, 1)
		e, err := pc.edits("gains", wire.FieldEdit{Path: "kp", Value: "1.25"}, wire.FieldEdit{Path: "count", Value: "7", Expect: true})
		if err != nil {
			t.Fatal(err)
		}
		if count, kp := gains.newestGains(); count != 7 || kp != 1.25 || gains.ch.LastSeq() != 2 || e.Seq != 2 {
			t.Errorf("got count %d, kp %v in frame %d, answer %d, want 7, 1.25 in frame 2", count, kp, gains.ch.LastSeq(), e.Seq)
		}
		if len(e.Fields) != 1 || e.Fields[0] != (status.FieldEdit{Field: "kp", Before: "1", After: "1.25"}) {
			t.Errorf("got the changes %+v, want kp from 1 to 1.25", e.Fields)
		}
		if e.AnswerMs < 20 || e.AnswerMs > 30 {
			t.Errorf("the answer took %v ms on a round trip of 20 ms", e.AnswerMs)
		}
		w.within(time.Second, "the frame in the mirror", func() bool { return pc.mirror("robot.gains").Seq == 2 })
		if list := robot.events(status.EventEdited); len(list) != 1 || list[0].Host != "pc" || list[0].Text != "frame 2: kp from 1 to 1.25" {
			t.Errorf("got the events %+v, want that pc changed kp", list)
		}
	})
}

func TestRefusedEditPutsNothing(t *testing.T) {
	kp := wire.FieldEdit{Path: "kp", Value: "2"}
	for name, c := range map[string]struct {
		channel string
		config  func(*Config)
		fields  []wire.FieldEdit
		want    string
	}{
		"no accept rule":      {"other", nil, []wire.FieldEdit{kp}, "no accept rule names it"},
		"denied":              {"gains", func(c *Config) { c.Accept = rule.Grants{{Channels: []string{"gains"}, Deny: true, From: "accept[0]"}} }, []wire.FieldEdit{kp}, "accept[0]"},
		"not adopted":         {"gains", func(c *Config) { c.Adopt = nil }, []wire.FieldEdit{kp}, "adopt does not name it"},
		"class command":       {"gains", func(c *Config) { c.Accept[0].QoS.Class = rule.Command }, []wire.FieldEdit{kp}, "the class of gains is command"},
		"operator lock":       {"gains", func(c *Config) { c.Accept[0].Operator = &rule.Operator{} }, []wire.FieldEdit{kp}, "gains"},
		"no layout":           {"gains", func(c *Config) { c.Layouts = nil }, []wire.FieldEdit{kp}, "has no layout"},
		"no channel":          {"gains2", func(c *Config) { c.Adopt = []string{"*"} }, []wire.FieldEdit{kp}, "robot has no channel gains2"},
		"no field":            {"gains", nil, []wire.FieldEdit{{Path: "kd", Value: "2"}}, "there is no field kd"},
		"no number":           {"gains", nil, []wire.FieldEdit{{Path: "kp", Value: "fast"}}, `kp: "fast": want a finite number`},
		"another value":       {"gains", nil, []wire.FieldEdit{kp, {Path: "count", Value: "8", Expect: true}}, "count is 7, not 8: nothing was put"},
		"second field is bad": {"gains", nil, []wire.FieldEdit{kp, {Path: "count", Value: "-1"}}, "count: "},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, pc, gains := w.tuning(c.config)
				gains.putGains(7, 1)
				if e, err := pc.edits(c.channel, c.fields...); err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrNoAnswer) {
					t.Errorf("got %+v, %v, want an error with %q", e, err, c.want)
				}
				if _, kp := gains.newestGains(); kp != 1 || gains.ch.LastSeq() != 1 {
					t.Errorf("kp is %v in frame %d, want 1 in frame 1", kp, gains.ch.LastSeq())
				}
			})
		})
	}
}

// While a program counts in its frames, no edit puts a frame with an older count after a newer one.
func TestEditsNeverUndoPuts(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "bridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const puts = 20_000
	ch, err := localach.Dir(dir).Create("gains", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 2 * puts, FrameSize: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	gains := &channel{t: t, ch: ch, w: ch.Writer()}
	types, err := layout.DecodeLayout(gainsLayout(t)[0].Encoded)
	if err != nil {
		t.Fatal(err)
	}
	gains.putGains(1, 0)
	var program sync.WaitGroup
	program.Go(func() {
		for count := uint64(2); count <= puts; count++ {
			gains.putGains(count, 0)
		}
	})
	edits := 0
	for edits < 100 || ch.LastSeq() < puts+uint64(edits) {
		m := wire.Edit{ID: 1, Channel: "gains", Fields: []wire.FieldEdit{{Path: "kp", Value: "3"}}}
		switch _, err := editNewest(localach.Dir(dir), m, types); {
		case err == nil:
			edits++
		case !strings.Contains(err.Error(), "programs put new frames too fast"):
			t.Fatal(err)
		}
	}
	program.Wait()
	r, frame, last := ch.Reader(), make([]byte, 64), uint64(0)
	for range puts + edits {
		if _, err := r.TryNextOldest(frame); err != nil {
			t.Fatal(err)
		}
		count := binary.LittleEndian.Uint64(frame)
		if count < last {
			t.Fatalf("frame %d has count %d after %d", r.Seq(), count, last)
		}
		last = count
	}
	t.Logf("%d edits during %d puts", edits, puts)
}

func TestEditWithoutAnswerHasUnknownOutcome(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, gains := w.tuning(nil)
		gains.putGains(7, 1)
		if _, err := pc.node.Edit(w.t.Context(), rule.Address{Host: "nobody", Channel: "gains"}, []wire.FieldEdit{{Path: "kp", Value: "2"}}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v for a host without a link, want fs.ErrNotExist", err)
		}
		if _, err := pc.node.Edit(w.t.Context(), rule.Address{Host: "pc", Channel: "gains"}, []wire.FieldEdit{{Path: "kp", Value: "2"}}); err == nil || !strings.Contains(err.Error(), "channel of this host") {
			t.Errorf("got %v for a channel of this host", err)
		}
		time.AfterFunc(5*time.Millisecond, robot.vanish)
		_, err := pc.edits("gains", wire.FieldEdit{Path: "kp", Value: "2"})
		if !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "unknown: the frame may have been put") {
			t.Errorf("got %v, want that it is unknown", err)
		}
	})
}

// Whenever a daemon is killed, a request puts its frame at most once, and an error other than ErrNoAnswer means that it did not.
func TestKilledDaemonsPutNoEditTwice(t *testing.T) {
	rounds := need.LongOr(1000, 100)
	inWorld(t, func(w *world) {
		robot, pc, gains := w.tuning(nil)
		gains.putGains(7, 0)
		outcomes := make(map[string]int)
		for round := range rounds {
			before, node, done := gains.ch.LastSeq(), pc.node, make(chan error, 1)
			go func() {
				_, err := node.Edit(w.t.Context(), rule.Address{Host: "robot", Channel: "gains"}, []wire.FieldEdit{{Path: "kp", Value: fmt.Sprint(round + 1)}})
				done <- err
			}()
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			victim := robot
			if round%2 == 1 {
				victim = pc
			}
			victim.restarts(100 * time.Millisecond)
			err := <-done
			w.within(10*time.Second, "link", func() bool {
				s := pc.node.Status()
				return len(s.Links) == 1 && s.Links[0].SilentS == 0 && len(robot.node.Status().Links) == 1
			})
			time.Sleep(time.Second)
			puts := gains.ch.LastSeq() - before
			_, kp := gains.newestGains()
			switch {
			case puts > 1:
				t.Fatalf("round %d: %d frames were put", round, puts)
			case err == nil && (puts != 1 || kp != float64(round+1)):
				t.Fatalf("round %d: success, but %d frames were put, kp is %v", round, puts, kp)
			case err != nil && !errors.Is(err, ErrNoAnswer) && puts != 0:
				t.Fatalf("round %d: %v, but the frame was put", round, err)
			}
			outcomes[fmt.Sprintf("%d put, success %v", puts, err == nil)]++
		}
		if len(outcomes) != 3 {
			t.Errorf("got %v, want a frame put with and without an answer, and none", outcomes)
		}
		t.Log(outcomes)
	})
}
