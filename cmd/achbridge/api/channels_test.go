package api

import (
	"slices"
	"testing"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

func TestLinkedCatalogOverridesAnnouncement(t *testing.T) {
	linked := []status.RemoteChannel{{Host: "krang", Channel: "imu", Node: "a", MirroredAs: "krang.imu"}}
	found := []status.RemoteChannel{
		{Host: "krang", Channel: "imu", Node: "a"},
		{Host: "krang", Channel: "gone", Node: "a"},
		{Host: "atlas", Channel: "imu", Node: "b"},
	}
	got := MergeChannels(linked, found)
	want := []status.RemoteChannel{found[2], linked[0]}
	if !slices.EqualFunc(got, want, func(x, y status.RemoteChannel) bool {
		return x.Host == y.Host && x.Channel == y.Channel && x.MirroredAs == y.MirroredAs
	}) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if list := Filter(rule.Address{Host: "*", Channel: "camera"}, got); list == nil || len(list) != 0 {
		t.Errorf("got %#v for no match, want an empty list", list)
	}
}
