package session

import (
	"log/slog"
	"net"
	"net/netip"
	"time"

	"achbridge/bridge/trust"
)

// Inbox receives the sessions that peers have dialled.
type Inbox interface {
	// Arrived accepts a session that a peer dialled, or closes it.
	Arrived(*Session)
	// Failed reports that no more sessions will arrive, since the protocol's socket has failed.
	Failed(error)
}

// Refusals logs refused peers.
type Refusals interface {
	// Report logs that the node at addr, which claims to be c, was refused or refused us.
	Report(addr net.Addr, c trust.Claim, err error)
}

// Handshakes limits the unfinished handshakes with peers that dialled us.
type Handshakes interface {
	// Enter adds a handshake. addr is zero while the peer has not proved its address; all such
	// peers count as one source. This and later calls of Enter may call end to drop the
	// handshake. end must neither block nor call Handshakes. It may be called more than once,
	// and after the handshake is over.
	Enter(addr netip.Addr, end func()) Handshake
	// AtLeast reports whether n or more are unfinished.
	AtLeast(n int) bool
}

// Handshake is one unfinished handshake.
type Handshake interface {
	// Reached records the stage that the handshake has reached.
	Reached(Stage)
	// Leave removes the handshake, whether it became a session or failed.
	Leave()
}

// Stage is the stage of a handshake.
type Stage int

// The stages, in order.
const (
	AtGreeting  Stage = iota
	AtHandshake       // the peer's ClientHello has arrived
	AtWelcome         // the peer's certificate has arrived and is that of a member
	AtEnd
)

// Settings contains everything that a protocol needs from its caller.
type Settings struct {
	Inbox       Inbox
	Refusals    Refusals
	Handshakes  Handshakes
	Member      func() *trust.Member // the key and the revocations in effect
	Leaving     func() bool          // whether new sessions are refused
	IdleTimeout time.Duration        // time without packets after which a session ends
	ResetSecret []byte               // 32 bytes from which stateless resets are derived, the same in every run of a node
	Marking     *Marking
	Log         *slog.Logger
}
