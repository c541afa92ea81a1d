package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"achbridge/localach"
)

func TestChannelsHaveOneMeaningAsTextAndMapping(t *testing.T) {
	c, err := loaded(t, `channels:
  - map,frames=10,size=64KiB,mode=0660,group=root,keep=last
  - {name: map2, frames: 10, size: 64KiB, mode: 0660, group: root, keep: last}
  - plain
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Channel{Name: "map", Geometry: localach.Geometry{FrameCount: 10, FrameSize: 64 << 10}, FileMode: 0o660, Group: "root", Keep: true, From: "channels[0]"}
	second, plain := want, Channel{Name: "plain", Geometry: localach.Geometry{FrameCount: 16, FrameSize: 512}, From: "channels[2]"}
	second.Name, second.From = "map2", "channels[1]"
	if !reflect.DeepEqual(c.ChannelRules, []Channel{want, second, plain}) {
		t.Errorf("got %+v, want %+v, %+v and %+v", c.ChannelRules, want, second, plain)
	}
}

func TestGroupsOfChannelsMustBeDaemonsOwn(t *testing.T) {
	c, err := loaded(t, "channels:\n  - map,group=root\n  - other,group=0\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, groups := range map[string][]int{"root": nil, "a member": {100, 0}} {
		if ps := c.CheckGroups(groups); len(ps) > 0 {
			t.Errorf("CheckGroups of %s: got %v, want none", name, ps)
		}
	}
	ps := c.CheckGroups([]int{100})
	if len(ps) != 2 || !strings.Contains(ps[0].Error(), "channels[0].group: the daemon's user is not in group root: usermod -a -G root USER") {
		t.Errorf("CheckGroups of another user: got %v, want that it is not in the groups, and the fix", ps)
	}
}

func TestChannelsNeedRestart(t *testing.T) {
	before, err := loaded(t, "channels: [map]\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := loaded(t, "channels: ['map,frames=3']\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if now, restart := after.Changes(before); len(now) > 0 || !slices.Equal(restart, []string{"channels"}) {
		t.Errorf("Changes: got %v now and %v at a restart, want channels at a restart", now, restart)
	}
}

func TestKeptChannelWithoutOtherWriterIsGood(t *testing.T) {
	if _, err := loaded(t, `channels: ['map,keep=last']
mirror: ['krang/*', 'krang/goal,as=goal']
accept: [goal, {deny: map}, 'm*']
adopt: [goal]
push: ['map krang', 'goal krang,class=command']
mux: ['ref teleop,live=1s']
`, nil); err != nil {
		t.Errorf("Load: %v, want no error", err)
	}
}
