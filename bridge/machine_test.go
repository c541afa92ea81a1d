package bridge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/peers"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
)

// copies starts a robot, a second machine with a copy of its disk (twin), and a PC. The PC knows
// both addresses, as from announcements, and is linked with the robot.
func (w *world) copies(pcCfg Config) (robot, copied, pc *host) {
	w.t.Helper()
	robot, copied, pc = w.host("robot", wire10ms), w.host("robot", wire10ms), w.host("pc", wire10ms)
	w.bothRun(robot, copied, pc, pcCfg)
	return robot, copied, pc
}

// bothRun starts a robot, its copy and a PC, as copies does.
func (w *world) bothRun(robot, copied, pc *host, pcCfg Config) {
	w.t.Helper()
	copied.id = robot.id
	accept := Config{Accept: rule.GrantTo("goal")}
	robot.run(accept)
	copied.run(accept)
	robot.channel("imu", 16, 64).streams(64)
	copied.channel("imu", 16, 64).streams(64)
	pc.run(pcCfg, robot)
	pc.knowsBoth(robot, copied)
}

// knowsBoth has the host dial both addresses of a node, in this order.
func (h *host) knowsBoth(first, second *host) {
	peers := asPeers([]*host{first})
	peers[0].Addrs = append(peers[0].Addrs, transport.Addrs{QUIC: second.addr()})
	h.node.SetPeers(peers)
}

// gap cuts the radio of a robot for 1.5 s while a PC mirrors it. The PC then dials the copy before
// the robot.
func (w *world) gap(robot, copied, pc *host) {
	w.t.Helper()
	pc.freshWithin(2*time.Second, "robot.imu")
	time.Sleep(settled)
	pc.knowsBoth(copied, robot)
	w.change("robot", "cut")
	time.Sleep(1500 * time.Millisecond)
	w.change("robot", "up")
	pc.freshWithin(time.Second, "robot.imu")
}

// linkedAt returns the remote address of the host's only link.
func (h *host) linkedAt() string {
	h.w.t.Helper()
	if links := h.node.Status().Links; len(links) == 1 {
		return links[0].Addr
	}
	return ""
}

func (h *host) happened(kind status.EventKind) (list []status.Event) {
	all, _, _ := h.node.events.Since(0)
	for _, e := range all {
		if e.Kind == kind {
			list = append(list, e)
		}
	}
	return list
}

func TestCopyGetsNoLinkDuringShortSilence(t *testing.T) {
	for _, byAuthority := range []bool{false, true} {
		t.Run(fmt.Sprintf("authority %v", byAuthority), func(t *testing.T) {
			inWorld(t, func(w *world) { w.shortSilence(byAuthority) })
		})
	}
}

func (w *world) shortSilence(byAuthority bool) {
	t := w.t
	robot, copied, pc := w.host("robot", wire10ms), w.host("robot", wire10ms), w.host("pc", wire10ms)
	if byAuthority {
		a := w.authority()
		robot.issued(a)
		pc.issued(a)
		copied.key = robot.key
	}
	w.bothRun(robot, copied, pc, allOfTheRobot)
	w.gap(robot, copied, pc)
	if at := pc.linkedAt(); at != robot.addr().String() {
		t.Errorf("the link is with %s, want the robot at %v", at, robot.addr())
	}
	for _, h := range []*host{robot, copied, pc} {
		w.within(5*time.Second, "an event about the copy at "+h.addr().String(), func() bool { return len(h.happened(status.EventCopiedImage)) == 1 })
	}
	if at := pc.node.Status().Links[0].CopyAt; at != copied.addr().String() {
		t.Errorf("status: copy at %q, want %v", at, copied.addr())
	}
	for _, h := range []*host{robot, copied} {
		if text := h.node.Status().Copied; !strings.Contains(text, "pc says") {
			t.Errorf("status of a copied host: got %q, want the text from the PC", text)
		}
	}
}

func TestCopyTakesOverMirrorsOfVanishedHost(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, copied, pc := w.copies(allOfTheRobot)
		pc.freshWithin(2*time.Second, "robot.imu")
		time.Sleep(settled)
		w.change("robot", "cut")
		began := time.Now()
		w.within(20*time.Second, "a link with the copy", func() bool { return pc.linkedAt() == copied.addr().String() })
		if took := time.Since(began); took < goneAfter || took > 3*goneAfter {
			t.Errorf("the copy was linked after %v, want a little more than %v", took, goneAfter)
		}
		pc.freshWithin(time.Second, "robot.imu")
		if at := pc.node.Status().Links[0].CopyAt; at != robot.addr().String() {
			t.Errorf("status: copy at %q, want the robot at %v", at, robot.addr())
		}
		if events := pc.happened(status.EventHostChanged); len(events) != 1 {
			t.Errorf("got events %v, want one that the host has changed", events)
		}
	})
}

func TestAlternatingCopiesAreDetected(t *testing.T) {
	for what, boot := range map[string]byte{"two machines": 1, "two containers of one machine": 0} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) { w.ranApart(boot) })
		})
	}
}

func (w *world) ranApart(boot byte) {
	w.t.Helper()
	robot, copied, pc := w.copies(allOfTheRobot)
	copied.stop()
	copied.machine = robot.machine
	copied.machine.Boot[0] += boot
	pc.freshWithin(2*time.Second, "robot.imu")
	time.Sleep(settled)
	w.change("robot", "cut")
	time.Sleep(2 * goneAfter)
	copied.run(copied.cfg)
	w.within(20*time.Second, "a link with the copy", func() bool { return pc.linkedAt() == copied.addr().String() })
	if events := pc.happened(status.EventCopiedImage); len(events) != 0 {
		w.t.Errorf("got %v while a disk may have been moved", events)
	}
	copied.stop()
	w.change("robot", "up")
	w.within(20*time.Second, "a link with the robot", func() bool { return pc.linkedAt() == robot.addr().String() })
	w.within(time.Second, "an event about the copy", func() bool { return len(pc.happened(status.EventCopiedImage)) == 1 })
}

// Hosts of older versions do not send their machine.
func TestUnknownMachineGetsNoLinkDuringShortSilence(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, copied, pc := w.host("robot", wire10ms), w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.machine, copied.machine = Machine{}, Machine{}
		w.bothRun(robot, copied, pc, allOfTheRobot)
		w.gap(robot, copied, pc)
		time.Sleep(10 * time.Second)
		if at := pc.linkedAt(); at != robot.addr().String() {
			t.Errorf("the link is with %s, want the robot at %v", at, robot.addr())
		}
	})
}

// The robot has a new address, and the PC dials the address of its copy first.
func TestMovedRobotIsFoundDespiteCopy(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, copied, pc := w.copies(allOfTheRobot)
		moved := w.host("robot", wire10ms)
		moved.id, moved.machine = robot.id, robot.machine
		pc.freshWithin(2*time.Second, "robot.imu")
		time.Sleep(settled)
		robot.vanish()
		moved.run(Config{})
		moved.channel("imu", 16, 64).streams(64)
		pc.knowsBoth(copied, moved)
		w.within(goneAfter, "a link with the robot", func() bool { return pc.linkedAt() == moved.addr().String() })
	})
}

// commandedCopies returns a PC that has pushed command 1 to a robot. The PC is now linked with the
// copy, since the robot is cut off.
func (w *world) commandedCopies() (robot, copied, pc *host, goal *channel) {
	w.t.Helper()
	robot, copied, pc = w.copies(Config{Pushes: rule.Pushes{{Channel: "goal", Host: "robot"}}})
	goal = pc.channel("goal", 8, 64)
	goal.put(1, 64)
	robot.follows("goal", 1, 2*time.Second)
	time.Sleep(settled)
	w.change("robot", "cut")
	w.within(20*time.Second, "a link with the copy", func() bool { return pc.linkedAt() == copied.addr().String() })
	return robot, copied, pc, goal
}

func TestNoCommandIsPushedToAnotherMachine(t *testing.T) {
	inWorld(t, func(w *world) {
		_, copied, pc, goal := w.commandedCopies()
		goal.put(2, 64)
		time.Sleep(5 * time.Second)
		if number, _ := copied.newest("goal"); number != 0 {
			t.Fatalf("the copy got command %d", number)
		}
		if p := pc.node.Status().Pushes[0]; p.State != status.PushWaiting || p.Cause != status.CauseOtherMachine {
			t.Errorf("got push %+v, want it to wait because of the machine", p)
		}
		if err := pc.node.AcceptMachine("robot"); err != nil {
			t.Fatal(err)
		}
		copied.follows("goal", 2, 2*time.Second)
	})
}

// A command channel that the robot mirrors is held back like one that is pushed to it.
func TestNoCommandIsReadByAnotherMachine(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, copied, pc := w.host("robot", wire10ms), w.host("robot", wire10ms), w.host("pc", wire10ms)
		copied.id = robot.id
		request := Config{Mirrors: []rule.Mirror{{Host: "pc", Channel: "goal", QoS: rule.QoS{Class: rule.Command}}}}
		pc.run(Config{})
		goal := pc.channel("goal", 8, 64)
		robot.run(request, pc)
		w.within(2*time.Second, "the robot's link", func() bool { return robot.mirror("pc.goal").State == status.MirrorLive })
		robot.stop()
		copied.run(request, pc)
		w.within(5*time.Second, "a refusal", func() bool { return copied.mirror("pc.goal").Cause == status.CauseOtherMachine })
		goal.put(1, 64)
		time.Sleep(time.Second)
		if number, _ := copied.newest("pc.goal"); number != 0 {
			t.Fatalf("the copy got command %d", number)
		}
		if err := pc.node.AcceptMachine("robot"); err != nil {
			t.Fatal(err)
		}
		w.within(5*time.Second, "a command at the machine that was accepted", func() bool {
			goal.put(2, 64) // the command is not sent if the robot could not read the channel yet
			number, _ := copied.newest("pc.goal")
			return number == 2
		})
	})
}

func TestCommandMachineIsRememberedOverRestart(t *testing.T) {
	inWorld(t, func(w *world) {
		var kept map[string]Machine
		robot, copied, pc := w.copies(Config{Pushes: rule.Pushes{{Channel: "goal", Host: "robot"}}, KeepMachines: func(m map[string]Machine) { kept = m }})
		pc.channel("goal", 8, 64).put(1, 64)
		robot.follows("goal", 1, 2*time.Second)
		pc.stop()
		robot.stop()
		if kept["robot"] != robot.machine {
			t.Fatalf("kept %v, want the machine of the robot", kept)
		}
		again := pc.cfg
		again.Machines = kept
		pc.run(again, copied)
		w.within(5*time.Second, "the push waits", func() bool {
			list := pc.node.Status().Pushes
			return len(list) == 1 && list[0].Cause == status.CauseOtherMachine
		})
	})
}

func TestRestartIsNotAnotherMachine(t *testing.T) {
	for what, restart := range map[string]func(robot *host){
		"daemon restarted": func(robot *host) {},
		"rebooted":         func(robot *host) { robot.machine.Boot[0]++ },
		"hardware not known, daemon restarted": func(robot *host) {
			robot.machine.Hardware = [16]byte{}
		},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				if strings.HasPrefix(what, "hardware") {
					restart(robot)
				}
				robot.run(Config{Accept: rule.GrantTo("goal")})
				goal := pc.channel("goal", 8, 64)
				goal.put(1, 64)
				pc.run(Config{Pushes: rule.Pushes{{Channel: "goal", Host: "robot"}}}, robot)
				robot.follows("goal", 1, 2*time.Second)
				robot.vanish()
				restart(robot)
				robot.run(robot.cfg)
				goal.put(2, 64)
				robot.follows("goal", 2, 10*time.Second)
				if events := append(pc.happened(status.EventHostChanged), pc.happened(status.EventCopiedImage)...); len(events) > 0 {
					t.Errorf("got events %v, want none", events)
				}
			})
		})
	}
}

// A member may use any name and any node id, and begin any number of incarnations.
func TestRememberedMachinesAreLimited(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		pc.run(Config{}, robot)
		w.within(2*time.Second, "a link", func() bool { return pc.links() != "" })
		n := pc.node
		n.loop.call(func() {
			var real *link
			for _, l := range n.links {
				real = l
			}
			claims := func(i int, run uint64) *link {
				id := trust.NodeID{1, byte(i), byte(i >> 8)}
				return &link{n: n, s: real.s, peer: id, host: fmt.Sprint("host", i), hello: hello{run: run, isReceived: true, machine: Machine{Boot: id}}}
			}
			for i := range maxPins + 10 {
				n.machines.use(claims(i, 1))
			}
			for i := range maxCopied + 10 {
				n.machines.foundCopy(claims(i, 1), real.s.RemoteAddr())
				for run := range uint64(maxFormer + 10) {
					n.machines.replaced(claims(i, run), claims(i, run+1))
				}
			}
			if len(n.machines.used) > maxPins || len(n.machines.copies) > maxCopied || len(n.machines.former) > maxCopied {
				t.Errorf("got %d machines, %d copies and the runs of %d nodes, want at most %d, %d and %d", len(n.machines.used), len(n.machines.copies), len(n.machines.former), maxPins, maxCopied, maxCopied)
			}
			for _, runs := range n.machines.former {
				if len(runs) != maxFormer || runs[maxFormer-1].run != maxFormer+9 {
					t.Errorf("got the runs %+v, want the latest %d", runs, maxFormer)
				}
			}
		})
	})
}

func TestMachineIsComparedByHardwareElseBootID(t *testing.T) {
	a, b, none := [16]byte{1}, [16]byte{2}, [16]byte{}
	for _, c := range []struct {
		what        string
		now, before Machine
		want        bool
	}{
		{"rebooted", Machine{a, a}, Machine{a, b}, false},
		{"another machine", Machine{a, a}, Machine{b, a}, true},
		{"hardware not known, as before", Machine{none, a}, Machine{none, a}, false},
		{"hardware not known, rebooted", Machine{none, a}, Machine{none, b}, true},
		{"hardware not known any more", Machine{none, a}, Machine{b, b}, true},
		{"hardware known now", Machine{a, a}, Machine{none, a}, false},
		{"an older version", Machine{}, Machine{a, a}, true},
		{"an older version, as before", Machine{}, Machine{}, false},
	} {
		if got := c.now.differs(c.before); got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, got, c.want)
		}
	}
}

// The copy became the link while the robot was away.
func TestReturningRobotGetsCommands(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, copied, _, goal := w.commandedCopies()
		w.change("robot", "up")
		goal.put(2, 64)
		robot.follows("goal", 2, 2*peers.TrialTime)
		if number, _ := copied.newest("goal"); number != 0 {
			t.Errorf("the copy got command %d", number)
		}
	})
}

func TestCopyYieldsToCommandMachine(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, copied, pc := w.host("robot", wire10ms), w.host("robot", wire10ms), w.host("pc", wire10ms)
		copied.id = robot.id
		accept := Config{Accept: rule.GrantTo("goal")}
		pc.run(Config{Machines: map[string]Machine{"robot": robot.machine}, Pushes: rule.Pushes{{Channel: "goal", Host: "robot"}}})
		goal := pc.channel("goal", 8, 64)
		goal.put(1, 64)
		copied.run(accept, pc)
		time.Sleep(100 * time.Millisecond)
		robot.run(accept, pc)
		robot.follows("goal", 1, 10*time.Second)
		if events := pc.happened(status.EventCopiedImage); len(events) != 1 {
			t.Errorf("got events %v, want one about the copy", events)
		}
	})
}

func TestCommandMachineIsRecordedOnClassChange(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		kept := map[string]Machine{}
		pc.run(Config{KeepMachines: func(m map[string]Machine) { kept = m }})
		pc.channel("goal", 8, 64)
		request := rule.Mirror{Host: "pc", Channel: "goal"}
		robot.run(Config{Mirrors: []rule.Mirror{request}}, pc)
		w.within(2*time.Second, "the mirror", func() bool { return robot.mirror("pc.goal").State == status.MirrorLive })
		pc.node.loop.call(func() {
			if len(kept) != 0 {
				t.Errorf("got machine %v for a channel of class state", kept)
			}
		})
		request.QoS.Class = rule.Command
		if err := robot.node.Mirror(request); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		pc.node.loop.call(func() {
			if kept["robot"] != robot.machine {
				t.Errorf("got machines %v, want that of the robot", kept)
			}
		})
	})
}

// The clock of the PC stops while it is suspended, so the robot's reboot seems to take no time.
func TestRobotRebootedDuringSuspendIsNotCopy(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 16, 64).streams(64)
		pc.run(allOfTheRobot, robot)
		pc.freshWithin(2*time.Second, "robot.imu")
		time.Sleep(settled)
		robot.vanish()
		robot.machine.Boot[0]++
		pc.suspend(time.Minute)
		robot.run(Config{Mirrors: []rule.Mirror{{Host: "pc", Channel: "x"}}}, pc)
		pc.freshWithin(10*time.Second, "robot.imu")
		time.Sleep(3 * time.Second)
		if events := pc.happened(status.EventCopiedImage); len(events) > 0 {
			t.Errorf("got %v", events)
		}
	})
}
