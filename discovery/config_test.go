package discovery

import (
	"strings"
	"testing"
	"time"
)

func TestNewAnnouncerReportsEveryProblem(t *testing.T) {
	_, err := NewAnnouncer(Config{
		Self:       Peer{Host: "my robot", Node: "xyz", Network: "1", lifetime: 1500 * time.Millisecond, More: -1},
		Port:       70000,
		Interfaces: []string{""},
	})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{`host name "my robot"`, "discovery.HostName", `node id "xyz"`, `network "1"`, "port 70000",
		"life 1.5s", "more -1", "discovery.interfaces[0]: empty"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestNewBrowserRefusesEmptyInterfaceName(t *testing.T) {
	if _, err := NewBrowser(Config{Interfaces: []string{"eth0", ""}}); err == nil || !strings.Contains(err.Error(), "interfaces[1]") {
		t.Errorf("got %v, want the place of the empty name", err)
	}
}

func TestInvalidChannelsAreOnlyCounted(t *testing.T) {
	a, err := NewAnnouncer(Config{Self: robot(), Port: 8076})
	if err != nil {
		t.Fatal(err)
	}
	a.Update([]Channel{{"imu", 16, 64}, {"", 1, 1}, {"huge", 1, maxFrameSize + 1}, {"arm", 1, 1}})
	rec, _, err := (&announceState{Announcer: a}).currentRecord()
	if err != nil {
		t.Fatal(err)
	}
	if got := rec.peer.Channels; len(got) != 2 || got[0].Name != "arm" || got[1].Name != "imu" || rec.peer.More != 2 {
		t.Errorf("got %v and %d more, want arm, imu and 2 more", got, rec.peer.More)
	}
}

func TestJoinChangesAnnouncedNetwork(t *testing.T) {
	a, err := NewAnnouncer(Config{Self: robot(), Port: 8076})
	if err != nil {
		t.Fatal(err)
	}
	r := &announceState{Announcer: a}
	before, _, err := r.currentRecord()
	if err != nil {
		t.Fatal(err)
	}
	a.Join("0123abcd")
	after, _, err := r.currentRecord()
	if err != nil || after.peer.Network != "0123abcd" || samePeer(before.peer, after.peer) {
		t.Errorf("got network %s, %v, want 0123abcd to be announced anew", after.peer.Network, err)
	}
}
