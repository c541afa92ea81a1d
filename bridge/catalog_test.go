package bridge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/wire"
)

// manyChannels returns a catalog of the given number of channels, all before zz by name.
func manyChannels(channels int) (list []wire.Channel) {
	for i := range channels {
		list = append(list, wire.Channel{Name: fmt.Sprintf("c%05d", i), FrameCount: 1, FrameSize: 16, Epoch: 1})
	}
	return list
}

func TestNamedRequestGetsOmittedChannel(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.host("pc", siegeWire).run(Config{Mirrors: rule.Mirrors{{Host: "evil", Channel: "c*"}, {Host: "evil", Channel: "zz-early"}}})
		evil := w.member("evil", pc)
		early := wire.Channel{Name: "zz-early", FrameCount: 1, FrameSize: 16, Epoch: 1}
		late := wire.Channel{Name: "zz-late", FrameCount: 1, FrameSize: 16, Epoch: 1}
		all := append(manyChannels(maxCatalog+500), early, late)
		for part := range slices.Chunk(all, 1000) {
			evil.say(wire.Catalog{Full: part[0].Name == all[0].Name, Channels: part})
		}
		subscribed := func(name string) bool {
			return slices.ContainsFunc(messages[wire.Subscribe](evil), func(m wire.Subscribe) bool { return m.Channel == name })
		}
		w.within(10*second, "a subscription to the one that is named", func() bool { return subscribed("zz-early") })
		if subscribed("zz-late") {
			t.Error("got a subscription to a channel without a request, want none")
		}
		if left := pc.node.Status().Links[0].LeftOut; left != 501 {
			t.Errorf("status has %d channels left out, want 501", left)
		}
		pc.logged("channels of a host left out", 1)

		if err := pc.node.Mirror(rule.Mirror{Host: "evil", Channel: "zz-late"}); err != nil {
			t.Fatal(err)
		}
		w.within(5*second, "the query for one that is named late", func() bool { return queries(evil, "zz-late") == 1 })
		evil.say(wire.Catalog{Channels: []wire.Channel{late}})
		w.within(5*second, "a subscription to it", func() bool { return subscribed("zz-late") })
	})
}

// An omitted channel is advertised only once: it must not be lost when other channels end.
func TestOmittedChannelIsRequestedOnceThereIsRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.host("pc", siegeWire).run(Config{Mirrors: rule.Mirrors{{Host: "evil", Channel: "zz*"}}})
		evil := w.member("evil", pc)
		late := wire.Channel{Name: "zz-late", FrameCount: 1, FrameSize: 16, Epoch: 1}
		others := manyChannels(maxCatalog)
		for part := range slices.Chunk(append(slices.Clone(others), late), 1000) {
			evil.say(wire.Catalog{Full: part[0].Name == others[0].Name, Channels: part})
		}
		omitted := func() int { return pc.node.Status().Links[0].LeftOut }
		subscriptions := func() int { return len(messages[wire.Subscribe](evil)) }
		w.within(10*second, "one channel is omitted", func() bool { return omitted() == 1 })
		evil.say(wire.Catalog{Channels: []wire.Channel{late}})
		time.Sleep(5 * second)
		if n := queries(evil, late.Name) + subscriptions(); n != 0 || omitted() != 1 {
			t.Errorf("got %d messages about it and %d omitted while there is no room, want 0 and 1", n, omitted())
		}

		evil.say(wire.Catalog{Gone: []string{others[0].Name}})
		w.within(5*second, "the query", func() bool { return queries(evil, late.Name) == 1 })
		evil.say(wire.Catalog{Channels: []wire.Channel{late}})
		w.within(5*second, "a subscription", func() bool { return subscriptions() == 1 && omitted() == 0 })
	})
}

// queries returns the number of queries about a channel that m received.
func queries(m *member, channel string) (n int) {
	for _, q := range messages[wire.Query](m) {
		if q.Channel == channel {
			n++
		}
	}
	return n
}

// A channel that the origin omitted from its catalog is advertised after a query.
func TestQueryAdvertisesOmittedChannelAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", siegeWire)
		robot.channel("imu", 4, 64)
		robot.run(Config{})
		pc := w.member("pc", robot)
		told := func() (times int) {
			for _, m := range messages[wire.Catalog](pc) {
				for _, c := range m.Channels {
					if c.Name == "imu" {
						times++
					}
				}
			}
			return times
		}
		w.within(second, "the catalog", func() bool { return told() == 1 })
		pc.say(wire.Query{ID: 1, Channel: "imu"})
		w.within(second, "the catalog again", func() bool { return told() == 2 })
		if got := messages[wire.Accepted](pc); len(got) != 1 || got[0].ID != 1 {
			t.Errorf("got %+v, want the query accepted", got)
		}
	})
}

func TestCatalogIsSentInOrderAtReadSpeed(t *testing.T) {
	now := map[string]wire.Channel{}
	for _, c := range manyChannels(2*catalogBurst + 10) {
		now[c.Name] = c
	}
	l := &link{out: newControlQueue()}
	var names []string
	for i, want := range []int{catalogBurst, catalogBurst, 10} {
		msg := l.changes(now)
		if len(msg.Channels) != want || msg.Full != (i == 0) || l.catalog.sent.isPartial != (i < 2) {
			t.Errorf("catalog %d: got %d channels, full %v, more to come %v", i, len(msg.Channels), msg.Full, l.catalog.sent.isPartial)
		}
		for _, c := range msg.Channels {
			names = append(names, c.Name)
		}
	}
	if !slices.IsSorted(names) || len(names) != len(now) {
		t.Errorf("got %d names, in order: %v", len(names), slices.IsSorted(names))
	}
	if msg := l.changes(now); len(msg.Channels)+len(msg.Gone) != 0 || l.catalog.sent.isPartial {
		t.Errorf("nothing changed: got %d and %d more", len(msg.Channels), len(msg.Gone))
	}
	l.out.bytes = maxControlBacklog / 2
	delete(now, names[0])
	if msg := l.changes(now); len(msg.Gone) != 0 || !l.catalog.sent.isPartial {
		t.Errorf("got %d removals for a peer that does not read, want none", len(msg.Gone))
	}
	l.out.bytes = 0
	if msg := l.changes(now); len(msg.Gone) != 1 || l.catalog.sent.isPartial {
		t.Errorf("got %d gone, want one", len(msg.Gone))
	}
}
