package status

import (
	"fmt"
	"slices"
	"strings"
)

// MirrorState says whether a mirror gets frames. Only the words below are its texts.
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

var (
	mirrorStates = []MirrorState{MirrorWaiting, MirrorLive, MirrorStale, MirrorContested, MirrorRefused}
	linkStates   = []LinkState{LinkUp, LinkSilent}
	pushStates   = []PushState{PushWaiting, PushAccepted, PushRefused}
)

func (s MirrorState) String() string { return string(s) }
func (s LinkState) String() string   { return string(s) }
func (s PushState) String() string   { return string(s) }
func (s PeerState) String() string   { return string(s) }

// MarshalText returns the word of the state.
func (s MirrorState) MarshalText() ([]byte, error) { return []byte(s), nil }

// MarshalText returns the word of the state.
func (s LinkState) MarshalText() ([]byte, error) { return []byte(s), nil }

// MarshalText returns the word of the state.
func (s PushState) MarshalText() ([]byte, error) { return []byte(s), nil }

// MarshalText returns the word of the state.
func (s PeerState) MarshalText() ([]byte, error) { return []byte(s), nil }

// UnmarshalText refuses a word that is no state of a mirror.
func (s *MirrorState) UnmarshalText(text []byte) error {
	return parseState(s, "mirror", mirrorStates, text)
}

// UnmarshalText refuses a word that is no state of a link.
func (s *LinkState) UnmarshalText(text []byte) error { return parseState(s, "link", linkStates, text) }

// UnmarshalText refuses a word that is no state of a push.
func (s *PushState) UnmarshalText(text []byte) error { return parseState(s, "push", pushStates, text) }

// UnmarshalText refuses a word that is no state of a peer.
func (s *PeerState) UnmarshalText(text []byte) error { return parseState(s, "peer", PeerStates, text) }

// parseState takes the empty text for no state, as of a thing that is not there.
func parseState[T ~string](s *T, of string, states []T, text []byte) error {
	state := T(text)
	if state != "" && !slices.Contains(states, state) {
		var words []string
		for _, known := range states {
			words = append(words, string(known))
		}
		return fmt.Errorf("state %q of a %s is not known here, only %s: update the older achbridge", text, of, strings.Join(words, ", "))
	}
	*s = state
	return nil
}
