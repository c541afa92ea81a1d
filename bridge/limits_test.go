package bridge

import (
	"fmt"
	"testing"
	"time"

	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/trust"
	"achbridge/wire"
)

func TestPushesOfAllPeersAreLimited(t *testing.T) {
	n := &Node{cfg: Config{Host: "robot"}, mirrors: newMirrorTable(mirror.Config{}, nil, temporaryPrefix)}
	n.requests.pushed = n.pushed
	n.links = linksWith(maxAllPushed)
	l := &link{n: n, host: "late"}
	if code, text := n.pushConflict(l, rule.Mirror{Host: "late", Channel: "c", As: "c"}); code != wire.CodeLimit {
		t.Errorf("got %v %q, want the limit", code, text)
	}
	n.links = linksWith(maxAllPushed - 1)
	if _, text := n.pushConflict(l, rule.Mirror{Host: "late", Channel: "c", As: "c"}); text != "" {
		t.Errorf("below the limit: got %q", text)
	}
}

func TestMirrorsOfAllHostsAreLimited(t *testing.T) {
	n := &Node{mirrors: newMirrorTable(mirror.Config{}, nil, temporaryPrefix)}
	l := &link{host: "evil"}
	if why := n.mirrors.noRoom(l.host, "c", rule.Mirror{Host: "evil", Channel: "c"}); why != "" {
		t.Errorf("the first: got %q", why)
	}
	for i := range maxMirrors {
		n.mirrors.byName[string(rune(i))] = &binding{}
	}
	if why := n.mirrors.noRoom(l.host, "c", rule.Mirror{Host: "evil", Channel: "c"}); why == "" {
		t.Error("got room for one more mirror, want the limit")
	}
}

func TestReconcilePauseExceedsItsDuration(t *testing.T) {
	if got := rest(10 * time.Millisecond); got < 30*time.Millisecond {
		t.Errorf("rest(10ms) = %v, want at least 30ms", got)
	}
	if got := rest(0); got != 0 {
		t.Errorf("rest(0) = %v, want 0", got)
	}
}

// linksWith returns links with the given total number of pushes.
func linksWith(pushes int) map[trust.NodeID]*link {
	links := map[trust.NodeID]*link{}
	for i := range pushes {
		id := trust.NodeID{byte(i / maxPushed), 1}
		if links[id] == nil {
			links[id] = &link{host: string(rune('a' + i/maxPushed))}
		}
		name := fmt.Sprintf("in%d", i)
		links[id].offers.accepted = append(links[id].offers.accepted, pushed{Mirror: rule.Mirror{Host: links[id].host, Channel: name, As: name}})
	}
	return links
}
