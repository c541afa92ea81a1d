package status

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"
)

// EventKind is the kind of an event.
type EventKind string

// Kinds of events.
const (
	EventLinkUp          EventKind = "link_up"
	EventLinkDown        EventKind = "link_down"
	EventLinkSilent      EventKind = "link_silent" // nothing was received for too long
	EventLinkReceives    EventKind = "link_heard"  // a silent link receives again
	EventPeerUnreachable EventKind = "peer_unreachable"
	// EventMirrorStale: no frame arrived within the deadline. EventDeadlineMissed: the deadline was missed again
	// before EventMirrorFresh; its Count grows until its End. EventMirrorFresh: frames have arrived in time for
	// a while.
	EventMirrorStale     EventKind = "mirror_stale"
	EventDeadlineMissed  EventKind = "deadline_missed"
	EventMirrorFresh     EventKind = "mirror_fresh"
	EventMirrorReplaced  EventKind = "mirror_replaced" // replaced by a new file; readers must open it again
	EventForeignWriter   EventKind = "foreign_writer"  // another process writes into a mirror
	EventForeignGone     EventKind = "foreign_gone"    // the foreign writer has stopped
	EventUnusable        EventKind = "channel_unusable"
	EventRefused         EventKind = "refused" // a mirror, push, subscription, frame or session was refused
	EventLoop            EventKind = "loop"    // a mirror would return a channel to its origin, and is refused
	EventClockStep       EventKind = "clock_step"
	EventHostChanged     EventKind = "host_changed" // the host name now belongs to another node
	EventCopiedImage     EventKind = "copied_image" // another machine has the host's node ID
	EventCertificateEnds EventKind = "certificate_ends"
	EventOperator        EventKind = "operator"        // the operator lock of a channel was taken, released or lost
	EventMuxChanged      EventKind = "mux_changed"     // another input of a mux wins, or none is live
	EventStampInFuture   EventKind = "stamp_in_future" // a frame of a mux's input has a time far ahead of this host's clock
	EventFrameRestored   EventKind = "frame_restored"  // a frame that was stored before a reboot was put back; its age is unknown
	EventFrameNotKept    EventKind = "frame_not_kept"  // a channel's newest frame cannot be stored, or was not put back after a reboot
	EventEdited          EventKind = "edited"          // another host changed fields of a channel's newest frame, and put it
	EventSnapshot        EventKind = "snapshot"        // the flight recorder has written a snapshot, since a trigger fired
	EventSnapshotFailed  EventKind = "snapshot_failed" // a snapshot is missing or ends early, as when the disk is full
	EventForged          EventKind = "hub_forged"      // the hub delivered a frame that is not the origin's, or a replayed one; it is not put
)

// EventKinds lists all kinds.
var EventKinds = []EventKind{
	EventLinkUp, EventLinkDown, EventLinkSilent, EventLinkReceives, EventPeerUnreachable, EventMirrorStale, EventDeadlineMissed, EventMirrorFresh,
	EventMirrorReplaced, EventForeignWriter, EventForeignGone, EventUnusable, EventRefused, EventLoop, EventClockStep, EventHostChanged,
	EventCopiedImage, EventCertificateEnds, EventOperator, EventMuxChanged, EventStampInFuture,
	EventFrameRestored, EventFrameNotKept, EventEdited, EventSnapshot, EventSnapshotFailed, EventForged,
}

// Event is an event that may interest an operator. Its JSON keys are an external interface.
type Event struct {
	Seq     uint64    `json:"seq"`  // from 1 in each incarnation of the daemon, without gaps
	Time    time.Time `json:"time"` // wall-clock time of this host
	Kind    EventKind `json:"kind"`
	Host    string    `json:"host,omitempty"`    // name of the peer
	Channel string    `json:"channel,omitempty"` // channel name at its origin
	Mirror  string    `json:"mirror,omitempty"`  // local name of the mirror
	Text    string    `json:"text"`              // description or reason
	Count   int       `json:"count,omitempty"`   // number of occurrences, if the event combines several
	// End is when a lasting condition ended; nil if it lasts, or the event is momentary.
	End *time.Time `json:"end,omitempty"`
}

// EventList is a consecutive part of the events.
type EventList struct {
	Run    string  `json:"run"`    // incarnation of the daemon; after a restart it differs, and Seq begins at 1
	Missed uint64  `json:"missed"` // number of events before the first one that are not kept any more
	Events []Event `json:"events"` // oldest first
}

// KeptEvents is the number of events that the journal keeps. Tests of the node fill it.
const KeptEvents = 512

// Journal records events: it logs them, counts them, and wakes followers. It never waits for a follower. Safe
// for concurrent use.
type Journal struct {
	Log *slog.Logger

	mu     sync.Mutex
	ring   [KeptEvents]Event // event seq is in slot seq%KeptEvents
	last   uint64
	counts map[EventKind]uint64
	more   chan struct{} // closed at the next event; nil if nobody waits
}

// Record logs a message with the peer and the channel of e, stores e, and returns its sequence number.
func (j *Journal) Record(level slog.Level, message string, e Event, args ...any) uint64 {
	if channel := cmp.Or(e.Mirror, e.Channel); channel != "" {
		args = append([]any{"channel", channel}, args...)
	}
	if e.Host != "" {
		args = append([]any{"peer", e.Host}, args...)
	}
	j.Log.Log(context.Background(), level, message, args...)
	return j.keep(e)
}

// GoesOn adds more occurrences to event seq and replaces its text. It neither logs nor wakes followers.
func (j *Journal) GoesOn(seq uint64, kind EventKind, more int, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[kind] += uint64(more)
	if e := &j.ring[seq%KeptEvents]; e.Seq == seq { // the event is still kept
		e.Count += more
		e.Text = text
	}
}

// Ended records that the condition of event seq ended some time ago.
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

// Since returns the events after sequence number after. missed counts the events among them that are no longer
// kept. If list is empty, more is closed at the next event.
func (j *Journal) Since(after uint64) (list []Event, missed uint64, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if after > j.last {
		after = 0 // the number is from another incarnation of the daemon
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
