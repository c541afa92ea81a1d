package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"time"

	"achbridge/bridge/peers"
	"achbridge/bridge/status"
	"achbridge/bridge/trust"
	"achbridge/wire"
)

// A node's id is made from a number in a file. A copy of that file, on an SD card or in a disk
// image, gives two machines one id. Mirrors then stay with the machine that is linked, until it
// has been silent for goneAfter. Commands and pushes go to no other machine than before until
// an operator accepts the other machine (AcceptMachine).

// Machine identifies the computer on which a node runs. The node sends it in Hello. A field is zero if it is not known.
type Machine struct {
	Hardware [16]byte // a hash of a part of the hardware (a MAC address or a serial number) and of the node's id
	Boot     [16]byte // the kernel's boot id
}

// differs reports whether m is, or may be, another machine than before.
func (m Machine) differs(before Machine) bool {
	if m.Hardware != (Machine{}.Hardware) && before.Hardware != (Machine{}.Hardware) {
		return m.Hardware != before.Hardware
	}
	return m.Boot != before.Boot
}

// booted reports whether m and other are known to have the same boot id.
func (m Machine) booted(other Machine) bool {
	return m.Boot == other.Boot && m.Boot != (Machine{}.Boot)
}

// isSameMachine reports whether two links with one node id lead to one machine: to the same
// daemon by another way, or to a daemon that was restarted under the same kernel.
func (l *link) isSameMachine(old *link) bool {
	return l.hello.run == old.hello.run || l.hello.machine.booted(old.hello.machine)
}

// isGone reports whether nothing at all has been heard on a link for goneAfter.
func (l *link) isGone(now time.Duration) bool {
	_, silent := l.quiet(now) // updates l.silence.receivedAt
	return silent && now-l.silence.receivedAt >= goneAfter
}

// copied describes a second machine that has the node id of a peer or of this host.
type copied struct {
	at   net.Addr      // address of the second machine, nil for a copy of this host
	text string        // the report for people
	seen time.Duration // when the second machine was heard last
}

// former is a run of a peer's daemon whose link was replaced by a link of another run.
type former struct {
	run uint64
	by  net.Addr // address of the run that replaced it
}

// machineTable has what is known of the machines that peers run on. It belongs to the node's goroutine, and only its methods
// write it.
type machineTable struct {
	used    map[string]Machine        // the machines to which commands and pushes went last, by host name
	keep    func(map[string]Machine)  // stores them; nil if they are forgotten when the node ends
	pins    map[string]pinned         // the node that last had a host name, by that name
	copies  map[trust.NodeID]copied   // machines that have the node id of a peer too, by that id
	ownCopy copied                    // a machine that has the node id of this host too
	former  map[trust.NodeID][]former // runs of a peer that another run has replaced
	now     func() time.Duration
	events  *status.Journal
}

func newMachineTable(cfg *Config, now func() time.Duration, events *status.Journal) machineTable {
	t := machineTable{
		used: make(map[string]Machine), keep: cfg.KeepMachines, pins: make(map[string]pinned),
		copies: make(map[trust.NodeID]copied), former: make(map[trust.NodeID][]former), now: now, events: events,
	}
	maps.Copy(t.used, cfg.Machines)
	return t
}

const (
	// copiedFor is how long a copy is reported after it was heard last.
	copiedFor = time.Hour
	// refusalTime is the time between the refusal of a copy and the end of its session, whose end may overtake the refusal.
	refusalTime = 500 * time.Millisecond
	// maxCopied bounds the number of node ids in machineTable.copies, and likewise in former.
	maxCopied = 64
	// maxFormer bounds how many former runs of a node are remembered.
	maxFormer = 8
)

// isCopy reports whether l and old lead to two machines that have one node id and both run. Until
// old is gone a reboot cannot explain another boot id: no machine boots within goneAfter.
func (t *machineTable) isCopy(l, old *link) bool {
	unknown := Machine{}
	if l.hello.machine.Boot == unknown.Boot || old.hello.machine.Boot == unknown.Boot || l.isSameMachine(old) {
		return false
	}
	if l.hello.machine.Hardware != unknown.Hardware && l.hello.machine.Hardware == old.hello.machine.Hardware {
		return false // the machine was rebooted, for example while this host was suspended
	}
	return !old.isGone(t.now()) && !t.isRight(l, old)
}

// isRight reports whether l leads to the machine to which commands and pushes went last, and old
// to another one.
func (t *machineTable) isRight(l, old *link) bool {
	_, known := t.used[old.host]
	return known && t.differs(old) != nil && t.differs(l) == nil
}

// refuseCopy ends spare l, which leads to a copy of the machine of old, and informs both machines.
func (n *Node) refuseCopy(l, old *link) {
	n.machines.foundCopy(l, l.s.RemoteAddr())
	old.send(wire.Refused{Re: wire.TypeHello, Code: wire.CodeCopied, Text: wire.Text(sameID(l))})
	delete(n.spares, l.spareKey())
	l.move(linkEnded)
	l.sayHello()
	l.send(wire.Refused{Re: wire.TypeHello, Code: wire.CodeCopied, Text: wire.Text(sameID(old))})
	n.loop.work.Go(func() {
		pause(n.loop.ctx, refusalTime)
		l.bye("another machine with this node id is linked")
		l.cancel(peers.ErrCopied)
	})
}

// sameID returns the text in which a machine reads that the machine of l has the same node id.
func sameID(l *link) string {
	return "the machine at " + l.s.RemoteAddr().String() + " has the same node id"
}

// foundCopy records that a second machine, at the given address, has the node id of l's peer. It
// records an event too, unless a copy of that peer is known already.
func (t *machineTable) foundCopy(l *link, at net.Addr) {
	before, known := t.copies[l.peer]
	if !known && len(t.copies) >= maxCopied {
		return
	}
	t.copies[l.peer] = copied{at: at, text: at.String(), seen: t.now()}
	if before.report(t.now()) == "" {
		t.events.Tell(slog.LevelWarn, "two machines have one node id",
			status.Event{Kind: status.EventCopiedImage, Host: l.host, Text: "the machine at " + at.String() + " has the same node id"}, "node", l.peer.String())
	}
}

// foundOwnCopy records the report of a peer that another machine has the node id of this host.
func (t *machineTable) foundOwnCopy(l *link, text string) {
	before := t.ownCopy
	t.ownCopy = copied{text: l.host + " says: " + text + " as this host", seen: t.now()}
	if before.report(t.now()) == "" {
		t.events.Tell(slog.LevelWarn, "another machine has the node id of this host", status.Event{Kind: status.EventCopiedImage, Host: l.host, Text: t.ownCopy.text})
	}
}

// report returns the text about a copy, "" if there is no copy or if it was not heard for copiedFor.
func (c copied) report(now time.Duration) string {
	if now-c.seen >= copiedFor {
		return ""
	}
	return c.text
}

// replaced is called when l takes the place of old. It remembers the run of old: if that run is
// heard again, there are two machines. If l leads to the machine that was recorded as the copy,
// the machine of old is recorded as the copy instead.
func (t *machineTable) replaced(old, l *link) {
	if t.isRight(l, old) && !old.isGone(t.now()) {
		t.foundCopy(l, old.s.RemoteAddr())
	}
	if c, known := t.copies[l.peer]; known && c.text == l.s.RemoteAddr().String() {
		c.at, c.text = old.s.RemoteAddr(), old.s.RemoteAddr().String()
		t.copies[l.peer] = c
	}
	if !old.hello.isReceived || !l.hello.isReceived || old.hello.run == l.hello.run || t.former[l.peer] == nil && len(t.former) >= maxCopied {
		return
	}
	runs := append(t.former[l.peer], former{old.hello.run, l.s.RemoteAddr()})
	t.former[l.peer] = runs[max(0, len(runs)-maxFormer):]
}

// recognize compares the machine of a link's peer with the machine that its node or its host
// name had before, and reports a difference. The peer has said Hello.
func (t *machineTable) recognize(l *link) {
	for _, f := range t.former[l.peer] {
		if f.run == l.hello.run {
			t.foundCopy(l, f.by)
		}
	}
	p, known := t.pins[l.host]
	if !known || p.node != l.peer {
		return
	}
	if unknown := (Machine{}.Hardware); p.hardware != unknown && l.hello.machine.Hardware != unknown && p.hardware != l.hello.machine.Hardware {
		l.warn("host runs on another machine than before", status.Event{Kind: status.EventHostChanged, Text: "it runs on another machine than before"}, "node", l.peer.String())
	}
	p.hardware = l.hello.machine.Hardware
	t.pins[l.host] = p
}

// errMachine is the reason why commands and pushes for a host wait.
var errMachine = errors.New("it runs on another machine than the one to which commands and pushes went before")

// errMachines is the reason why commands for a new host wait when no more machines can be remembered.
var errMachines = fmt.Errorf("%w, of which no more can be remembered: remove the file machines from the state directory, then start the daemon again", errMachine)

// differs returns errMachine if l's peer runs on another machine than the one to which
// commands and pushes for a host of that name went last.
func (t *machineTable) differs(l *link) error {
	last, known := t.used[l.host]
	if known && l.hello.machine.differs(last) {
		return errMachine
	}
	if !known && len(t.used) >= maxPins {
		return errMachines
	}
	return nil
}

// use remembers the machine of l's peer as the one to which commands and pushes for its host go.
func (t *machineTable) use(l *link) {
	last, known := t.used[l.host]
	if l.hello.machine == last || !known && len(t.used) >= maxPins {
		return
	}
	t.used[l.host] = l.hello.machine
	if t.keep != nil {
		t.keep(maps.Clone(t.used))
	}
}

// maxPins bounds how many names are remembered.
const maxPins = 4096

// pin remembers which node has the name of l's host. Unless certificates bind names to hosts, it logs a change: the host was
// reinstalled, or another host uses its name.
func (t *machineTable) pin(l *link, namesBind bool) {
	before, known := t.pins[l.host]
	switch {
	case known && before.node == l.peer, !known && len(t.pins) >= maxPins:
		return
	case known && !namesBind:
		l.warn("host name is used by another node than before", status.Event{Kind: status.EventHostChanged, Text: "its name is used by another node than before"}, "node", l.peer.String(), "before", before.node.String())
	}
	t.pins[l.host] = pinned{node: l.peer}
}

// pinned is the node that last had a host name, and the hardware of its machine, zero if not known.
type pinned struct {
	node     trust.NodeID
	hardware [16]byte
}

// AcceptMachine has commands and pushes go to the machine that a host runs on now. It fails
// if the host is not linked.
func (n *Node) AcceptMachine(host string) (err error) {
	ran := n.loop.call(func() {
		for _, l := range n.links {
			if l.host == host && l.hello.isReceived {
				n.machines.use(l)
				n.judgeExports(l)
				n.loop.changed()
				return
			}
		}
		err = errors.New(host + " is not linked: its machine can be accepted when it is")
	})
	if !ran {
		err = errEnded
	}
	return err
}

func (l *link) spareKey() spareKey { return spareKey{l.peer, l.s.Dialled()} }

// spareKey identifies a spare. A peer can have two: one that this node dialled, and one that the peer dialled.
type spareKey struct {
	peer    trust.NodeID
	dialled bool
}
