package bridge

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// EventKind says what an event is about.
type EventKind string

// Kinds of events.
const (
	LinkUp          EventKind = "link_up"
	LinkDown        EventKind = "link_down"
	LinkSilent      EventKind = "link_silent" // nothing is heard though it should be
	LinkHeard       EventKind = "link_heard"  // again
	PeerUnreachable EventKind = "peer_unreachable"
	// MirrorStale: no frame came within the deadline. DeadlineMissed: nor did it again,
	// Count times, before the mirror was fresh. MirrorFresh: frames come in time again,
	// and have for a while.
	MirrorStale     EventKind = "mirror_stale"
	DeadlineMissed  EventKind = "deadline_missed"
	MirrorFresh     EventKind = "mirror_fresh"
	MirrorReplaced  EventKind = "mirror_replaced" // by a new file; readers must open it again
	ForeignWriter   EventKind = "foreign_writer"  // somebody else writes into a mirror
	Unusable        EventKind = "channel_unusable"
	Refused         EventKind = "refused" // a mirror, push, subscription, frame or session
	Loop            EventKind = "loop"    // a channel came round, and is not mirrored
	ClockStep       EventKind = "clock_step"
	HostChanged     EventKind = "host_changed" // its name is that of another node now
	CertificateEnds EventKind = "certificate_ends"
)

// EventKinds are all kinds.
var EventKinds = []EventKind{
	LinkUp, LinkDown, LinkSilent, LinkHeard, PeerUnreachable, MirrorStale, DeadlineMissed, MirrorFresh,
	MirrorReplaced, ForeignWriter, Unusable, Refused, Loop, ClockStep, HostChanged,
	CertificateEnds,
}

// Event is something that happened which an operator may want to know. Its JSON
// keys are used by programs.
type Event struct {
	Seq     uint64    `json:"seq"`  // from 1 in each run of the daemon, without gaps
	Time    time.Time `json:"time"` // by the wall clock of this host
	Kind    EventKind `json:"kind"`
	Host    string    `json:"host,omitempty"`    // the other one
	Channel string    `json:"channel,omitempty"` // as its origin calls it
	Mirror  string    `json:"mirror,omitempty"`  // as it is called here
	Text    string    `json:"text"`              // what happened, or why
	Count   int       `json:"count,omitempty"`   // how often, where several are told as one
}

// EventList is a piece of what happened.
type EventList struct {
	Run    string  `json:"run"`    // another one: the daemon was started anew, and counts from 1
	Missed uint64  `json:"missed"` // events that are not kept any more, before the first
	Events []Event `json:"events"` // oldest first
}

// keptEvents is how many events are kept for those who ask later.
const keptEvents = 512

// journal is what happened. It is the one place that tells of it: to the log, to
// those who follow, and to who counts. It never waits for who follows. Safe for
// concurrent use.
type journal struct {
	log *slog.Logger

	mu     sync.Mutex
	ring   [keptEvents]Event // event seq is in slot seq%keptEvents
	last   uint64
	counts map[EventKind]uint64
	more   chan struct{} // closed when there is one more; nil: nobody waits
}

// tell logs a message with the peer and the channel of e, and keeps e.
func (j *journal) tell(level slog.Level, message string, e Event, args ...any) {
	if channel := cmp.Or(e.Mirror, e.Channel); channel != "" {
		args = append([]any{"channel", channel}, args...)
	}
	if e.Host != "" {
		args = append([]any{"peer", e.Host}, args...)
	}
	j.log.Log(context.Background(), level, message, args...)
	j.keep(e)
}

func (j *journal) keep(e Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last++
	e.Seq, e.Time = j.last, time.Now()
	j.ring[e.Seq%keptEvents] = e
	if j.counts == nil {
		j.counts = make(map[EventKind]uint64)
	}
	j.counts[e.Kind] += uint64(max(1, e.Count))
	if j.more != nil {
		close(j.more)
		j.more = nil
	}
}

// since returns the events after one, and if there are none a channel that is closed
// when there are.
func (j *journal) since(after uint64) (list []Event, missed uint64, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if after > j.last {
		after = 0 // it counts in another run
	}
	oldest := max(j.last, keptEvents) - keptEvents + 1
	if first := after + 1; first < oldest {
		missed, after = oldest-first, oldest-1
	}
	for seq := after + 1; seq <= j.last; seq++ {
		list = append(list, j.ring[seq%keptEvents])
	}
	if len(list) == 0 && j.more == nil {
		j.more = make(chan struct{})
	}
	return list, missed, j.more
}

func (j *journal) counted() map[EventKind]uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	counts := make(map[EventKind]uint64, len(j.counts))
	for kind, n := range j.counts {
		counts[kind] = n
	}
	return counts
}

// Events returns what happened after event number after, 0 being before the first.
// It waits for news until ctx ends, then the list is empty; an error is that the
// node has ended. The newest 512 are kept: who asks too late is told how many it
// missed.
func (n *Node) Events(ctx context.Context, after uint64) (EventList, error) {
	for {
		list, missed, more := n.events.since(after)
		l := EventList{Run: fmt.Sprintf("%016x", n.run), Missed: missed, Events: list}
		if len(list) > 0 {
			return l, nil
		}
		l.Events = []Event{}
		select {
		case <-more:
		case <-ctx.Done():
			return l, nil
		case <-n.ended:
			return l, fmt.Errorf("events: the daemon has ended: %w", net.ErrClosed)
		}
	}
}

// Tell logs a message and keeps e among the events of the node, whose Seq and Time
// it sets. args are further attributes of the log line.
func (n *Node) Tell(level slog.Level, message string, e Event, args ...any) {
	n.events.tell(level, message, e, args...)
}

// leastStep is what the wall clock must have gained or lost between two looks to
// have been set. The monotonic clock stands still while the host is suspended.
const leastStep = 100 * time.Millisecond

// wallClock notices that the wall clock was set, or the host suspended.
type wallClock struct {
	wall, mono time.Duration // at the last look
	looked     bool
}

// look returns by how much the wall clock moved against the monotonic one since the
// last look, 0 when it did not. read asks both, one after the other: time that passes
// in between, on a host that is busy, is a step that the second reading takes back.
func (w *wallClock) look(read func() (wall, mono time.Duration)) time.Duration {
	step := w.moved(read())
	if step != 0 {
		step += w.moved(read())
	}
	if step.Abs() < leastStep {
		return 0
	}
	return step
}

func (w *wallClock) moved(wall, mono time.Duration) time.Duration {
	step := (wall - w.wall) - (mono - w.mono)
	known := w.looked
	w.wall, w.mono, w.looked = wall, mono, true
	if !known || step.Abs() < leastStep {
		return 0
	}
	return step
}

// lookAtClocks tells of clocks that stepped: the wall clock of this host, and the
// clocks of peers against ours.
func (n *Node) lookAtClocks() {
	both := func() (wall, mono time.Duration) {
		now := time.Now()
		return time.Duration(now.UnixNano()), now.Sub(n.start)
	}
	if step := n.wall.look(both); step != 0 {
		n.events.tell(slog.LevelWarn, "wall clock stepped", Event{
			Kind: ClockStep, Text: fmt.Sprintf("wall clock of this host moved by %v: it was set, or the host was suspended; ages do not depend on it", step.Round(time.Millisecond)),
		}, "step", step)
	}
	for _, l := range n.links {
		l.mu.Lock()
		step := l.stepped
		l.stepped = 0
		l.mu.Unlock()
		if step != 0 {
			l.warn("clock of a peer stepped", Event{
				Kind: ClockStep, Text: fmt.Sprintf("monotonic clock of %s moved by %v against ours: one of the two hosts was suspended", l.host, step.Round(time.Microsecond)),
			}, "step", step)
		}
	}
}
