package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/layout"
	"achbridge/bridge/layouts"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// encodedLayout returns the packed layout of frames of the given size.
func encodedLayout(t *testing.T, name string, size int) []byte {
	t.Helper()
	b, err := (&layout.Layout{Name: name, Size: size, Fields: []layout.Field{{Name: "x", Type: layout.Bytes, Size: size}}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// says returns the layout of a channel as the host knows it.
func (h *host) says(of string) Layout {
	h.w.t.Helper()
	found, err := h.node.Layout(context.Background(), of)
	if err != nil {
		h.w.t.Fatal(err)
	}
	return found
}

// describes makes the member answer all further layout requests with answer.
func (m *member) describes(answer func(wire.Describe) wire.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.layouts = answer
}

// described advertises channels with the given layout hashes.
func (m *member) described(hashes ...wire.Hash) {
	var list []wire.Channel
	for i, h := range hashes {
		list = append(list, wire.Channel{Name: fmt.Sprintf("c%d", i), FrameCount: 1, FrameSize: 16, Epoch: 1, Layout: h})
	}
	m.offers(list...)
	m.w.within(second, "the catalog", func() bool { return len(m.w.one.node.Channels()) == len(hashes) })
}

// lonely runs a PC that only hostile members join.
func (w *world) lonely() *host {
	w.one = w.host("pc", siegeWire).run(Config{})
	return w.one
}

func TestMirrorHostGetsLayoutOfOrigin(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		imu := robot.channel("imu", 64, 64)
		robot.channel("arm", 4, 64)
		robot.channel("log", 4, 64)
		kind, other := encodedLayout(t, "imu", 64), encodedLayout(t, "arm", 32)
		robot.run(Config{Layouts: layouts.Rules{{Channels: "im?", Encoded: kind}, {Channels: "i*", Encoded: other}, {Channels: "arm", Encoded: other}}})
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}, robot)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, second)

		began := time.Now()
		for _, of := range []string{"robot.imu", "robot/imu"} {
			if got := pc.says(of); !bytes.Equal(got.Encoded, kind) || got.Host != "robot" || got.Channel != "imu" || got.Why != "" {
				t.Errorf("%s: got %+v, want %x of robot", of, got, kind)
			}
		}
		if took := time.Since(began); took > 100*milli {
			t.Errorf("two answers took %v, want one round trip of 20 ms", took)
		}
		if got := pc.says("robot.log"); got.Encoded != nil || got.Why != "" {
			t.Errorf("got %+v of a channel without a layout, want nothing", got)
		}
		if _, err := pc.node.Layout(context.Background(), "robot/none"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v of a channel that is not there, want fs.ErrNotExist", err)
		}

		robot.stop()
		w.within(10*second, "the end of the link", func() bool { return len(pc.node.Status().Links) == 0 })
		if got := pc.says("robot.imu"); !bytes.Equal(got.Encoded, kind) {
			t.Errorf("got %+v without a link, want what is kept", got)
		}
		if got := pc.says("robot.arm"); got.Encoded != nil || got.Why != "there is no link to it" {
			t.Errorf("got %+v without a link, want why there is nothing", got)
		}
	})
}

func TestOriginReloadChangesOnlyLayout(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		imu := robot.channel("imu", 64, 64)
		first, later := encodedLayout(t, "imu", 64), encodedLayout(t, "imu", 32)
		robot.run(Config{Layouts: layouts.Rules{{Channels: "imu", Encoded: first}}})
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}, robot)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, second)
		subscription := func() (id uint32) {
			pc.node.loop.call(func() { id = pc.node.mirrors.byName["robot.imu"].subID })
			return id
		}
		before := subscription()
		for _, want := range [][]byte{first, later, nil, first} {
			var list layouts.Rules
			if want != nil {
				list = layouts.Rules{{Channels: "imu", Encoded: want}}
			}
			if err := robot.node.Apply(Config{Layouts: list}); err != nil {
				t.Fatal(err)
			}
			w.within(second, "the layout", func() bool { return bytes.Equal(pc.says("robot.imu").Encoded, want) })
		}
		imu.put(2, 64)
		pc.follows("robot.imu", 2, second)
		if got := subscription(); got != before {
			t.Errorf("got subscription %d, want %d still", got, before)
		}
	})
}

func TestInvalidLayoutReplyIsRefused(t *testing.T) {
	hex := func(of ...byte) []byte { return of }
	one := []byte{0xa3, 1, 0x61, 't', 2, 1, 3, 0x81, 0xa2, 1, 0x61, 'x', 3, 0x65, 'u', 'i', 'n', 't', '8'}
	escape, html := bytes.Clone(one), bytes.Clone(one)
	escape[3], html[11] = 0x1b, '<'
	for name, c := range map[string]struct {
		encodedLayout, says []byte // content of the hash; content that is sent
		want                string
	}{
		"another hash":       {encodedLayout(t, "a", 8), encodedLayout(t, "a", 9), "the hash differs"},
		"not a layout":       {hex(1, 2, 3), hex(1, 2, 3), "not a layout"},
		"an escape sequence": {escape, escape, `has the character '\x1b'`},
		"HTML":               {html, html, "has the character '<'"},
		"too large a frame":  {encodedLayout(t, "a", wire.MaxFrame+1), encodedLayout(t, "a", wire.MaxFrame+1), "no frame has more than"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				pc := w.lonely()
				evil := w.member("evil", pc)
				evil.describes(func(d wire.Describe) wire.Message { return wire.Layout{ID: d.ID, Encoded: c.says} })
				evil.described(layout.Hash(c.encodedLayout))
				for range 3 {
					if got := pc.says("evil/c0"); got.Encoded != nil || !strings.Contains(got.Why, c.want) || strings.ContainsAny(got.Why, "\x1b\n") {
						t.Errorf("got %+v, want why: %q", got, c.want)
					}
				}
				if n := len(messages[wire.Describe](evil)); n != 1 {
					t.Errorf("got %d layout requests, want one", n)
				}
				pc.logged("layout refused", 1)
			})
		})
	}
}

func TestLayoutAbove64KiBEndsTheLink(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.lonely()
		evil := w.member("evil", pc)
		large := make([]byte, wire.MaxLayout+1)
		evil.described(layout.Hash(large))
		var got Layout
		var work sync.WaitGroup
		work.Go(func() { got, _ = pc.node.Layout(context.Background(), "evil/c0") })
		w.within(second, "the question", func() bool { return len(messages[wire.Describe](evil)) == 1 })
		evil.lie(wire.TypeLayout, map[int]any{1: messages[wire.Describe](evil)[0].ID, 2: large})
		work.Wait()
		if got.Encoded != nil || got.Why != "the link to it has ended" {
			t.Errorf("got %+v, want the end of the link", got)
		}
		pc.logged("packed: 65537 is not in", 1)
	})
}

func TestUnrequestedLayoutsAreIgnored(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.lonely()
		evil := w.member("evil", pc)
		good := encodedLayout(t, "a", 8)
		evil.described(layout.Hash(good))
		for id := range uint32(100) {
			evil.say(wire.Layout{ID: id + 1, Encoded: good})
		}
		time.Sleep(second)
		pc.node.loop.call(func() {
			if n := pc.node.layouts.Len(); n != 0 {
				t.Errorf("%d layouts are kept, want none", n)
			}
		})
		began := time.Now()
		if got := pc.says("evil/c0"); got.Encoded != nil || got.Why != "it does not answer" {
			t.Errorf("got %+v of a host that does not answer", got)
		}
		if took := time.Since(began); took != layoutTimeout {
			t.Errorf("waited for %v, want %v", took, layoutTimeout)
		}
		for range 5 {
			pc.says("evil/c0")
		}
		if n := len(messages[wire.Describe](evil)); n > 3 {
			t.Errorf("got %d layout requests in 12 s, want at most 3", n)
		}
	})
}

// Peers get the layouts in the catalog, at a limited rate, so that frames do not wait.
func TestLayoutsObeyExportRulesAndRateLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", siegeWire)
		robot.channel("imu", 4, 64)
		robot.channel("plan", 4, 64)
		large := layout.Layout{Name: "t", Size: 4096}
		for i := range 2000 {
			large.Fields = append(large.Fields, layout.Field{Name: fmt.Sprintf("field_%04d", i), Offset: 2 * i, Type: layout.Uint8, Unit: "m"})
		}
		kind, err := large.Encode()
		if err != nil {
			t.Fatal(err)
		}
		robot.run(Config{
			Layouts: layouts.Rules{{Channels: "*", Encoded: kind}},
			Export:  rule.Grants{{Channels: []string{"plan"}, Hosts: []string{"planner"}, From: "export[0]"}, {Channels: []string{"*"}, From: "export[1]"}},
		})
		pc := w.member("pc", robot)
		told := map[string]wire.Hash{}
		w.within(second, "the catalog", func() bool {
			for _, c := range messages[wire.Catalog](pc) {
				for _, c := range c.Channels {
					told[c.Name] = c.Layout
				}
			}
			return len(told) == 2
		})
		if told["imu"] != layout.Hash(kind) || told["plan"] != (wire.Hash{}) {
			t.Errorf("got %x, want only the layouts of channels that pc may read", told)
		}
		for i, name := range []string{"plan", "none"} {
			pc.say(wire.Describe{ID: uint32(i + 1), Channel: name})
		}
		began := time.Now()
		for i := range 1000 {
			pc.say(wire.Describe{ID: uint32(i + 10), Channel: "imu"})
		}
		w.within(30*second, "an answer to each", func() bool {
			return len(messages[wire.Refused](pc))+len(messages[wire.Layout](pc)) == 1002
		})
		for _, m := range messages[wire.Refused](pc) {
			want := wire.CodeLimit
			if m.ID < 10 {
				want = wire.CodeAbsent
			}
			if m.Code != want || m.Re != wire.TypeDescribe {
				t.Errorf("got %+v, want %v", m, want)
			}
		}
		most := 1<<20 + int(time.Since(began).Seconds()*100*1024) + len(kind)
		if got := len(messages[wire.Layout](pc)) * len(kind); got > most || got < 1<<19 {
			t.Errorf("got %d KiB of layouts, want some, and %d at most", got>>10, most>>10)
		}
	})
}

// A peer of a version without layouts advertises none, requests none and is sent none.
func TestOlderPeerGetsNoLayoutMessages(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.host("pc", siegeWire)
		pc.channel("imu", 4, 64)
		pc.run(Config{Layouts: layouts.Rules{{Channels: "*", Encoded: encodedLayout(t, "imu", 64)}}, Mirrors: []rule.Mirror{{Host: "old", Channel: "*"}}})
		old := w.member("old", pc)
		old.lie(wire.TypeCatalog, map[int]any{1: true, 2: []any{map[int]any{1: "data", 2: 16, 3: 64, 4: 1}}})
		old.serves("data")
		w.within(second, "the mirror", func() bool { return pc.mirror("old.data").State != status.MirrorWaiting })
		if got := pc.says("old.data"); got.Encoded != nil || got.Why != "" || got.Host != "old" {
			t.Errorf("got %+v, want nothing, and no reason", got)
		}
		time.Sleep(second)
		if n := len(messages[wire.Describe](old)) + len(messages[wire.Layout](old)); n != 0 {
			t.Errorf("got %d messages unknown to the older peer, want none", n)
		}
		if len(pc.node.Status().Links) != 1 {
			t.Error("the link has ended")
		}
	})
}
