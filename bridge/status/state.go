package status

import "slices"

// A state is told by its word. A client keeps words that it does not know, as a newer daemon may
// have more states: what it reads it can show and pass on.

// MirrorState says whether a mirror gets frames.
type MirrorState string

// The states of a mirror. Those of which there may be several at once are told in
// the order contested, refused, stale, live.
const (
	MirrorWaiting   MirrorState = "waiting" // for its origin
	MirrorLive      MirrorState = "live"
	MirrorStale     MirrorState = "stale"     // live, but no frame came within the deadline
	MirrorContested MirrorState = "contested" // live, but somebody else writes into its file too
	MirrorRefused   MirrorState = "refused"   // there is to be no mirror, or none of its frames can be put
)

// LinkState says whether a peer is heard.
type LinkState string

// The states of a link.
const (
	LinkUp     LinkState = "up"
	LinkSilent LinkState = "silent" // nothing is heard, though it should be
)

// PushState says whether a peer takes what is pushed.
type PushState string

// The states of a push.
const (
	PushWaiting  PushState = "waiting" // for the channel, the peer, or its answer
	PushAccepted PushState = "accepted"
	PushRefused  PushState = "refused"
)

// PeerState says whether there is a link to a node that we know of.
type PeerState string

// The states of a peer.
const (
	PeerLinked   PeerState = "linked"
	PeerDialling PeerState = "dialling"
	PeerMissed   PeerState = "missed" // nothing tells of it any more, and it is dialled for a while
	PeerKnown    PeerState = "known"
)

// PeerStates are the states of a peer; the first that holds for anything known of it
// is its own.
var PeerStates = []PeerState{PeerLinked, PeerDialling, PeerMissed, PeerKnown}

func (s MirrorState) String() string { return string(s) }
func (s LinkState) String() string   { return string(s) }
func (s PushState) String() string   { return string(s) }
func (s PeerState) String() string   { return string(s) }

// Health is how a mirror is, in one word for people and programs: Mirror.Health makes it of the
// state and of how late the frames are.
type Health string

// What the health of a mirror can be.
const (
	HealthLive    Health = "live"    // frames come in time
	HealthLate    Health = "late"    // frames come past the budget, or the next is overdue by more than that
	HealthWaiting Health = "waiting" // its origin is not linked, not heard, or does not offer the channel
	HealthStale   Health = "stale"   // no frame came in time within its deadline
	HealthRefused Health = "refused" // a rule, its file or another writer is in the way
)

// Healths are all of them, the worst first.
var Healths = []Health{HealthRefused, HealthStale, HealthWaiting, HealthLate, HealthLive}

func (h Health) String() string { return string(h) }

// Rank is 0 for the best, and greater the worse: that of a word that is not known is the greatest.
func (h Health) Rank() int { return len(Healths) - 1 - slices.Index(Healths, h) }
