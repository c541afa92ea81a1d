package status

import "slices"

// States are text. A client keeps values that it does not know, since a newer daemon may have more states: it
// can still show them and pass them on.

// MirrorState is the state of a mirror: whether it gets frames.
type MirrorState string

// States of a mirror. If several apply, the first of refused, waiting, stale, contested and live is reported.
const (
	MirrorWaiting       MirrorState = "waiting" // waiting for its origin
	MirrorLive          MirrorState = "live"
	MirrorStale         MirrorState = "stale"     // live, but no frame came within the deadline
	MirrorForeignWriter MirrorState = "contested" // live, but another process writes into its file too
	MirrorRefused       MirrorState = "refused"   // there must be no mirror, or none of its frames can be put
)

// LinkState is the state of a link: whether packets of the peer arrive.
type LinkState string

// States of a link.
const (
	LinkUp     LinkState = "up"
	LinkSilent LinkState = "silent" // nothing was received for too long
)

// PushState is the state of a push: whether the peer accepts it.
type PushState string

// States of a push.
const (
	PushWaiting  PushState = "waiting" // waiting for the channel, the peer, or the peer's reply
	PushAccepted PushState = "accepted"
	PushRefused  PushState = "refused"
)

// PeerState is the state of a known node: whether there is a link to it.
type PeerState string

// States of a peer.
const (
	PeerLinked   PeerState = "linked"
	PeerDialling PeerState = "dialling"
	PeerMissed   PeerState = "missed" // no longer announced, and still dialled for a while
	PeerKnown    PeerState = "known"
)

// PeerStates lists the states of a peer by precedence. The first one that applies to any record of the peer is
// the peer's state.
var PeerStates = []PeerState{PeerLinked, PeerDialling, PeerMissed, PeerKnown}

func (s MirrorState) String() string { return string(s) }
func (s LinkState) String() string   { return string(s) }
func (s PushState) String() string   { return string(s) }
func (s PeerState) String() string   { return string(s) }

// Health is the condition of a mirror for people and programs. Mirror.Health computes it from the state and the
// lateness of frames.
type Health string

// Values of Health.
const (
	HealthLive    Health = "live"    // frames arrive in time
	HealthLate    Health = "late"    // frames arrive past the budget, or the next one is overdue by more than the budget
	HealthWaiting Health = "waiting" // the origin is not linked, is silent, or does not offer the channel
	HealthStale   Health = "stale"   // no frame arrived in time within its deadline
	HealthRefused Health = "refused" // a rule, its file or another writer prevents it
)

// Healths lists all values, the worst first.
var Healths = []Health{HealthRefused, HealthStale, HealthWaiting, HealthLate, HealthLive}

func (h Health) String() string { return string(h) }

// Rank returns 0 for the best health, and more for a worse one. Unknown values have the greatest rank.
func (h Health) Rank() int { return len(Healths) - 1 - slices.Index(Healths, h) }
