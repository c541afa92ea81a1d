package main

import (
	"slices"
	"testing"

	"achbridge/bridge"
)

func TestAddressStandsForAllChannelsOfAHost(t *testing.T) {
	for text, want := range map[string]address{
		"krang":           {"krang", "*"},
		"krang/imu":       {"krang", "imu"},
		"krang/i*":        {"krang", "i*"},
		"*/imu":           {"*", "imu"},
		"ach://krang/imu": {"krang", "imu"},
	} {
		if got, err := parseAddress(text); err != nil || got != want {
			t.Errorf("parseAddress(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "/", "krang/", "/imu", "a/b/c", "[", "krang/["} {
		if got, err := parseAddress(text); err == nil {
			t.Errorf("parseAddress(%q) = %v, want an error", text, got)
		}
	}
}

func TestLinkedCatalogOverridesAnnouncement(t *testing.T) {
	linked := []bridge.RemoteChannel{{Host: "krang", Channel: "imu", Node: "a", MirroredAs: "krang.imu"}}
	found := []bridge.RemoteChannel{
		{Host: "krang", Channel: "imu", Node: "a"},
		{Host: "krang", Channel: "gone", Node: "a"},
		{Host: "atlas", Channel: "imu", Node: "b"},
	}
	got := mergeChannels(linked, found)
	want := []bridge.RemoteChannel{found[2], linked[0]}
	if !slices.EqualFunc(got, want, func(x, y bridge.RemoteChannel) bool {
		return x.Host == y.Host && x.Channel == y.Channel && x.MirroredAs == y.MirroredAs
	}) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if list := (address{"*", "camera"}).filter(got); list == nil || len(list) != 0 {
		t.Errorf("got %#v for no match, want an empty list", list)
	}
}
