package session

import (
	"log/slog"
	"net"
	"net/netip"
	"time"

	"achbridge/bridge/trust"
)

// Inbox takes the sessions that a protocol makes for peers.
type Inbox interface {
	// Arrived takes a session that a peer dialled, or closes it.
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
	// Enter adds a handshake. Addr is zero while the peer has not proved that it is at that
	// address: all such peers are one source. Enter and later handshakes call end to make
	// room. End must neither wait nor call back. It may be called more than once, and after
	// the handshake is over.
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
	AtHandshake       // its ClientHello has arrived
	AtWelcome         // its certificate has arrived and is a member's
	AtEnd
)

// Settings has what every protocol needs of its caller.
type Settings struct {
	Inbox       Inbox
	Refusals    Refusals
	Handshakes  Handshakes
	Member      func() *trust.Member // the key and the revocations in effect
	Leaving     func() bool          // whether new sessions are refused
	IdleTimeout time.Duration        // after which a silent peer's session ends
	ResetSecret []byte               // 32 bytes that make stateless resets, the same in every run of a node
	Log         *slog.Logger
}
