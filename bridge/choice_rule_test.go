package bridge

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
)

// choosing is a PC and a robot, which stream over both transports, and are told by
// nobody but the PC's rules which to take.
func choosing(w *world, cfg Config, change func(*Peer)) (robot, pc *host) {
	w.t.Helper()
	robot, pc = w.host("robot", wire10ms), w.host("pc", wire10ms)
	robot.over, pc.over = "auto", "auto"
	robot.run(Config{Accept: rule.GrantTo("*")})
	robot.channel("imu", 16, 64).streams(64)
	pc.run(cfg)
	p := robot.asPeer("")
	if change != nil {
		change(&p)
	}
	pc.node.SetPeers([]Peer{p})
	return robot, pc
}

func TestRuleSaysOverWhatTheLinkRuns(t *testing.T) {
	for name, change := range map[string]func(*Peer){
		"Named":     nil,
		"ByAddress": func(p *Peer) { p.Host, p.Node = "", "" }, // its name is known once it has answered
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, pc := choosing(w, Config{Mirrors: []rule.Mirror{{Host: "pc*", Channel: "*", Over: overQUIC}, {Host: "rob*", Channel: "imu", Over: overSCTP}}}, change)
				pc.live(overSCTP, 3*time.Second)
				time.Sleep(5 * time.Second)
				pc.live(overSCTP, 0)
			})
		})
	}
}

func TestPushSaysOverWhatTheLinkRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		_, pc := choosing(w, Config{Pushes: rule.Pushes{{Channel: "plan", Host: "robot", Over: overSCTP}}}, nil)
		w.within(time.Second, "the link", func() bool { return pc.link().Transport == overSCTP })
	})
}

func TestPeersEntryGoesBeforeTheTransportOfARule(t *testing.T) {
	inWorld(t, func(w *world) {
		_, pc := choosing(w, Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", Over: overSCTP}}}, func(p *Peer) { p.Over = overQUIC })
		pc.live(overQUIC, time.Second)
	})
}

func TestChangedRuleMovesTheLinkToItsTransport(t *testing.T) {
	inWorld(t, func(w *world) {
		_, pc := choosing(w, Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}, nil)
		pc.live(overQUIC, time.Second)
		if err := pc.node.Apply(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", Over: overSCTP}}}); err != nil {
			t.Fatal(err)
		}
		pc.live(overSCTP, time.Second)
	})
}

func TestTransportOfARuleThatThePeerLacksIsToldWithTheCure(t *testing.T) {
	inWorld(t, func(w *world) {
		_, pc := choosing(w, Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", Over: overSCTP}}}, func(p *Peer) { p.Addrs[0].SCTP = nil })
		time.Sleep(5 * time.Second)
		want := "take transport: sctp off the rules of mirror and push that name it"
		if list := pc.node.Status().Peers; len(list) != 1 || !strings.Contains(list[0].Error, want) {
			t.Errorf("got %+v, want %q", list, want)
		}
	})
}
