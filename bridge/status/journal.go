package status

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"
)

// EventKind says what an event is about.
type EventKind string

// Kinds of events.
const (
	EventLinkUp          EventKind = "link_up"
	EventLinkDown        EventKind = "link_down"
	EventLinkSilent      EventKind = "link_silent" // nothing is heard though it should be
	EventLinkHeard       EventKind = "link_heard"  // again
	EventPeerUnreachable EventKind = "peer_unreachable"
	// MirrorStale: no frame came within the deadline. DeadlineMissed: nor did it again,
	// before the mirror was fresh; its Count grows until its End. MirrorFresh: frames come
	// in time again, and have for a while.
	EventMirrorStale     EventKind = "mirror_stale"
	EventDeadlineMissed  EventKind = "deadline_missed"
	EventMirrorFresh     EventKind = "mirror_fresh"
	EventMirrorReplaced  EventKind = "mirror_replaced" // by a new file; readers must open it again
	EventForeignWriter   EventKind = "foreign_writer"  // somebody else writes into a mirror
	EventForeignGone     EventKind = "foreign_gone"    // and does not any more
	EventUnusable        EventKind = "channel_unusable"
	EventRefused         EventKind = "refused" // a mirror, push, subscription, frame or session
	EventLoop            EventKind = "loop"    // a channel came round, and is not mirrored
	EventClockStep       EventKind = "clock_step"
	EventHostChanged     EventKind = "host_changed" // its name is that of another node now
	EventCopiedImage     EventKind = "copied_image" // another machine has the host's node id
	EventCertificateEnds EventKind = "certificate_ends"
	EventForged          EventKind = "hub_forged" // the hub brought a frame that is not put: not the origin's, or come again
)

// EventKinds are all kinds.
var EventKinds = []EventKind{
	EventLinkUp, EventLinkDown, EventLinkSilent, EventLinkHeard, EventPeerUnreachable, EventMirrorStale, EventDeadlineMissed, EventMirrorFresh,
	EventMirrorReplaced, EventForeignWriter, EventForeignGone, EventUnusable, EventRefused, EventLoop, EventClockStep, EventHostChanged,
	EventCopiedImage, EventCertificateEnds, EventForged,
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
	// End is since when it is over, of what goes on for a while.
	End *time.Time `json:"end,omitempty"`
}

// EventList is a piece of what happened.
type EventList struct {
	Run    string  `json:"run"`    // another one: the daemon was started anew, and counts from 1
	Missed uint64  `json:"missed"` // events that are not kept any more, before the first
	Events []Event `json:"events"` // oldest first
}

// KeptEvents is how many events are kept for those who ask later. Tests of the node fill them.
const KeptEvents = 512

// Journal is what happened. It is the one place that tells of it: to the log, to
// those who follow, and to who counts. It never waits for who follows. Safe for
// concurrent use.
type Journal struct {
	Log *slog.Logger

	mu     sync.Mutex
	ring   [KeptEvents]Event // event seq is in slot seq%KeptEvents
	last   uint64
	counts map[EventKind]uint64
	more   chan struct{} // closed when there is one more; nil: nobody waits
}

// Tell logs a message with the peer and the channel of e, and keeps e. It returns its number.
func (j *Journal) Tell(level slog.Level, message string, e Event, args ...any) uint64 {
	if channel := cmp.Or(e.Mirror, e.Channel); channel != "" {
		args = append([]any{"channel", channel}, args...)
	}
	if e.Host != "" {
		args = append([]any{"peer", e.Host}, args...)
	}
	j.Log.Log(context.Background(), level, message, args...)
	return j.keep(e)
}

// GoesOn counts more of what event seq has told of, whose text is this now. Neither the log
// nor those who follow hear of it.
func (j *Journal) GoesOn(seq uint64, kind EventKind, more int, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[kind] += uint64(more)
	if e := &j.ring[seq%KeptEvents]; e.Seq == seq { // it is still kept
		e.Count += more
		e.Text = text
	}
}

// Ended notes that what event seq has told of is over since a while ago.
func (j *Journal) Ended(seq uint64, ago time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := &j.ring[seq%KeptEvents]; e.Seq == seq {
		at := time.Now().Add(-ago)
		e.End = &at
	}
}

func (j *Journal) keep(e Event) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last++
	e.Seq, e.Time = j.last, time.Now()
	j.ring[e.Seq%KeptEvents] = e
	if j.counts == nil {
		j.counts = make(map[EventKind]uint64)
	}
	j.counts[e.Kind] += uint64(max(1, e.Count))
	if j.more != nil {
		close(j.more)
		j.more = nil
	}
	return e.Seq
}

// Since returns the events after one, and if there are none a channel that is closed
// when there are.
func (j *Journal) Since(after uint64) (list []Event, missed uint64, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if after > j.last {
		after = 0 // it counts in another run
	}
	oldest := max(j.last, KeptEvents) - KeptEvents + 1
	if first := after + 1; first < oldest {
		missed, after = oldest-first, oldest-1
	}
	for seq := after + 1; seq <= j.last; seq++ {
		list = append(list, j.ring[seq%KeptEvents])
	}
	if len(list) == 0 && j.more == nil {
		j.more = make(chan struct{})
	}
	return list, missed, j.more
}

func (j *Journal) Counted() map[EventKind]uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	counts := make(map[EventKind]uint64, len(j.counts))
	for kind, n := range j.counts {
		counts[kind] = n
	}
	return counts
}
