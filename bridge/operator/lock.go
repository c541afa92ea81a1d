package operator

import (
	"errors"
	"time"

	"achbridge/bridge/phases"
)

// Holder identifies the machine that holds a lock. Another machine with the same host name or node id differs in
// Hardware or Boot.
type Holder struct {
	Host     string
	Node     [16]byte
	Hardware [16]byte // zero if unknown
	Boot     [16]byte // boot id of the kernel
}

// Phase is the phase of a lock.
type Phase int

// Phases of a lock.
const (
	Nobody  Phase = iota // nobody holds the lock
	Held                 // packets of the holder arrive
	InGrace              // nothing arrives from the holder, which keeps the lock until its grace is over
)

var transitions = phases.Transitions[Phase]{
	Nobody:  {Held, InGrace},
	Held:    {InGrace, Nobody},
	InGrace: {Held, Nobody},
}

// String returns the phase as it appears in a status.
func (p Phase) String() string {
	switch p {
	case Held:
		return "held"
	case InGrace:
		return "in_grace"
	}
	return "nobody"
}

// Lock is the lock of one channel. The zero value is a lock that nobody holds.
type Lock struct {
	Channel    string
	Holder     Holder
	Generation uint64
	TakenAt    time.Duration
	End        time.Duration // when the lock ends; 0 means that it has no end

	phase      Phase
	receivedAt time.Duration // when the last packet of the holder arrived
}

// Phase returns the phase of the lock.
func (l Lock) Phase() Phase { return l.phase }

// Right returns the right to put that the lock gives to its holder. It is the zero value if nobody holds the lock.
func (l Lock) Right() Right {
	if l.phase == Nobody {
		return Right{}
	}
	return Right{Grant{l.Holder.Node, l.Generation}, l.End}
}

// Grant identifies the holder and the generation for which frames are accepted. The zero value means that no lock is
// needed.
type Grant struct {
	Node       [16]byte
	Generation uint64
}

// Right is the right to put frames until an end; 0 means without end.
type Right struct {
	Grant
	End time.Duration
}

// Allows reports whether frames that were accepted for g may be put at now.
func (r Right) Allows(g Grant, now time.Duration) bool {
	return g == r.Grant && (r.End == 0 || now < r.End)
}

// Quiet is the time without a packet of the holder after which its lock is in grace.
const Quiet = 500 * time.Millisecond

// MaxLocks bounds the number of channels that are held.
const MaxLocks = 1024

// HeldError is the error that another host holds the lock.
type HeldError struct{ Lock }

func (e *HeldError) Error() string { return e.Holder.Host + " holds it" }

var (
	// ErrNobody means that nobody holds the lock.
	ErrNobody = errors.New("nobody holds it")
	errFull   = errors.New("too many channels are held")
)
