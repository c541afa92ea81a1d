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
// image, gives two machines the same id. Mirrors then stay with the linked machine until it has
// been silent for goneAfter. Commands and pushes keep going to the former machine only, until an
// operator accepts the other machine (AcceptMachine).

// Machine identifies the computer on which a node runs. The node sends it in Hello. A zero field
// is unknown.
type Machine struct {
	Hardware [16]byte // hash of the node's id and of a hardware identifier (a MAC address or a serial number)
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

// isSameMachine reports whether two links with one node id lead to one machine. Either they reach
// the same daemon by different routes, or the daemon was restarted without a reboot.
func (l *link) isSameMachine(old *link) bool {
	return l.hello.run == old.hello.run || l.hello.machine.booted(old.hello.machine)
}

// isGone reports whether no packet at all has arrived on a link for goneAfter.
func (l *link) isGone(now time.Duration) bool {
	_, silent := l.quiet(now) // updates l.silence.receivedAt
	return silent && now-l.silence.receivedAt >= goneAfter
}

// copied describes a second machine that has the node id of a peer or of this host.
type copied struct {
	at         net.Addr      // address of the second machine, nil for a copy of this host
	text       string        // the report for people
	detectedAt time.Duration // when the second machine was last detected
}

// former is an incarnation of a peer's daemon whose link was replaced by a link of another
// incarnation.
type former struct {
	run uint64
	by  net.Addr // address of the incarnation that replaced it
}

// machineTable records the machines that peers run on. It belongs to the node's goroutine, and
// only its methods write it.
type machineTable struct {
	used    map[string]Machine        // machines to which commands and pushes last went, by host name
	keep    func(map[string]Machine)  // stores used; nil means that used is lost when the node ends
	pins    map[string]pinned         // node that last had a host name, by that name
	copies  map[trust.NodeID]copied   // second machines with the node id of a peer, by that id
	ownCopy copied                    // second machine with the node id of this host
	former  map[trust.NodeID][]former // replaced incarnations of a peer
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

// forget removes the entry about a host's machine. It returns false if there is none.
func (t *machineTable) forget(host string) bool {
	_, used := t.used[host]
	_, pinned := t.pins[host]
	delete(t.pins, host)
	if used {
		t.used = maps.Clone(t.used)
		delete(t.used, host)
		if t.keep != nil {
			t.keep(maps.Clone(t.used))
		}
	}
	return used || pinned
}

const (
	// copiedFor is how long a copy is reported after it was last detected.
	copiedFor = time.Hour
	// refusalTime is the time between the refusal of a copy and the end of its session. Without it
	// the end of the session could overtake the refusal.
	refusalTime = 500 * time.Millisecond
	// maxCopied bounds the number of node ids in machineTable.copies, and likewise in former.
	maxCopied = 64
	// maxFormer bounds the number of former incarnations stored for each node.
	maxFormer = 8
)

// isCopy reports whether l and old lead to two running machines with the same node id. Another
// boot id cannot be due to a reboot before old is gone, since no machine boots within goneAfter.
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

// isRight reports whether commands and pushes last went to the machine of l, and old leads to
// another machine.
func (t *machineTable) isRight(l, old *link) bool {
	_, known := t.used[old.host]
	return known && t.differs(old) != nil && t.differs(l) == nil
}

// refuseCopy ends spare l, which leads to a copy of the machine of old, and informs both machines.
func (n *Node) refuseCopy(l, old *link) {
	n.machines.foundCopy(l, l.s.RemoteAddr())
	old.send(wire.Refused{Re: wire.TypeHello, Code: wire.CodeCopied, Text: wire.Text(sameID(l))})
	delete(n.spares, l.standbyKey())
	l.move(linkEnded)
	l.sayHello()
	l.send(wire.Refused{Re: wire.TypeHello, Code: wire.CodeCopied, Text: wire.Text(sameID(old))})
	n.loop.work.Go(func() {
		pause(n.loop.ctx, refusalTime)
		l.bye("another machine with this node id is linked")
		l.cancel(peers.ErrCopied)
	})
}

// sameID returns the text that informs a machine that the machine of l has the same node id.
func sameID(l *link) string {
	return "the machine at " + l.s.RemoteAddr().String() + " has the same node id"
}

// foundCopy records that a second machine, at the given address, has the node id of l's peer. It
// also records an event, unless a copy of that peer is already known.
func (t *machineTable) foundCopy(l *link, at net.Addr) {
	before, known := t.copies[l.peer]
	if !known && len(t.copies) >= maxCopied {
		return
	}
	t.copies[l.peer] = copied{at: at, text: at.String(), detectedAt: t.now()}
	if before.report(t.now()) == "" {
		t.events.Record(slog.LevelWarn, "two machines have one node id",
			status.Event{Kind: status.EventCopiedImage, Host: l.host, Text: "the machine at " + at.String() + " has the same node id"}, "node", l.peer.String())
	}
}

// foundOwnCopy records a peer's report that another machine has the node id of this host.
func (t *machineTable) foundOwnCopy(l *link, text string) {
	before := t.ownCopy
	t.ownCopy = copied{text: l.host + " says: " + text + " as this host", detectedAt: t.now()}
	if before.report(t.now()) == "" {
		t.events.Record(slog.LevelWarn, "another machine has the node id of this host", status.Event{Kind: status.EventCopiedImage, Host: l.host, Text: t.ownCopy.text})
	}
}

// report returns the text about a copy. It returns "" if there is none, or if it was last detected
// copiedFor ago.
func (c copied) report(now time.Duration) string {
	if now-c.detectedAt >= copiedFor {
		return ""
	}
	return c.text
}

// replaced is called when l replaces old. It records the incarnation of old: if that incarnation
// connects again, there are two machines. If l leads to the machine that was recorded as the copy,
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

// recognize compares the machine of l's peer with the one that its node or its host name had
// before, and reports a difference. It is called after the peer's Hello.
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

// errMachine is the reason why commands and pushes for a host are held back.
var errMachine = errors.New("it does not run on the machine that received its commands and pushes before")

// errMachines is the reason why commands for a new host are held back: the table of machines is
// full.
var errMachines = fmt.Errorf("%w, of which no more can be remembered: remove the file machines from the state directory, then start the daemon again", errMachine)

// differs returns errMachine if commands and pushes for the host name of l's peer last went to
// another machine. It returns errMachines if the host is unknown and the table is full.
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

// use records the machine of l's peer as the one that commands and pushes for its host go to.
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

// maxPins bounds the number of host names for which a machine or a node is recorded.
const maxPins = 4096

// pin records which node has the name of l's host. Unless certificates bind names to hosts, it
// logs a change: the host was reinstalled, or another host uses its name.
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

// pinned is the node that last had a host name, and the hardware of its machine. The hardware is
// zero if unknown.
type pinned struct {
	node     trust.NodeID
	hardware [16]byte
}

// AcceptMachine lets commands and pushes go to the machine that a host runs on now. It fails if
// the host is not linked.
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

func (l *link) standbyKey() standbyKey { return standbyKey{l.peer, l.s.Dialled()} }

// standbyKey identifies a spare. A peer can have two spares: one that this node dialled, and one
// that the peer dialled.
type standbyKey struct {
	peer    trust.NodeID
	dialled bool
}
