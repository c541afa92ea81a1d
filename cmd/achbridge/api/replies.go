package api

import (
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

// DaemonInfo describes the daemon in a StatusReply. status.Report describes its node.
type DaemonInfo struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	Network string `json:"network"`
	Listen  string `json:"listen"`
	HTTP    string `json:"http,omitempty"` // address of the page and the metrics
	Control string `json:"control"`
	// CertificateEnds is when this host's certificate expires; nil without a certificate.
	CertificateEnds *time.Time `json:"certificate_ends,omitempty"`
	// Revocations is the number of the revocation list in effect.
	Revocations uint64 `json:"revocations,omitempty"`
	Watch       Watch  `json:"watch"`
}

// Watch says what polling without pause for expected frames may cost, and has cost. Shares
// are of one processor.
type Watch struct {
	Budget  float64 `json:"budget"`  // 0: never without pause, as with watch: low or on one processor
	SpentS  float64 `json:"spent_s"` // since the daemon began
	Resting bool    `json:"resting"` // not now: others want its processor
}

// DaemonSetup has the daemon's settings that doctor needs to check the same files and
// interfaces, and what doctor cannot see from outside. Paths are absolute.
type DaemonSetup struct {
	Config     string   `json:"config"` // empty: no configuration file
	Key        string   `json:"key"`
	State      string   `json:"state"` // empty: the default directory
	Discovery  string   `json:"discovery"`
	Interfaces []string `json:"interfaces"` // empty: all
	// Memberships has an entry for each interface and family that the daemon uses for mDNS now. It is empty if there is
	// none.
	Memberships []Membership `json:"memberships"`
}

// Membership reports whether the daemon has joined the multicast group of mDNS on an interface.
type Membership struct {
	Interface string `json:"interface"`
	IPv6      bool   `json:"ipv6"`
	Error     string `json:"error,omitempty"` // why it has not joined; empty if it has
}

type StatusReply struct {
	DaemonInfo
	Goroutines int   `json:"goroutines"`     // in the daemon; a number that grows for ever is a bug
	Achd       *Achd `json:"achd,omitempty"` // nil: achd's protocol is off
	Hub        *Hub  `json:"hub,omitempty"`  // nil: no hub is used
	status.Report
	// Troubles is what is wrong with all of this, the most costly first, as of achbridge why.
	// While nobody looks repeatedly it has only what one look tells. Never null.
	Troubles []diagnose.Trouble `json:"troubles"`
}

// TroublesReport is the answer of achbridge why without a channel.
type TroublesReport struct {
	Host     string             `json:"host"`
	Mirrors  int                `json:"mirrors"`
	Troubles []diagnose.Trouble `json:"troubles"` // the most costly first; never null
	WindowS  float64            `json:"window_s"`
}

// Hub says how it stands with the hub that this host uses.
type Hub struct {
	Address   string  `json:"address"` // tls://HOST:PORT
	Connected bool    `json:"connected"`
	SinceS    float64 `json:"since_s"`         // for how long it is connected, or is not
	Error     string  `json:"error,omitempty"` // why it is not
	// Cause is the cause of the error: key where the hub refuses this host's credentials, certificate where what answers is not
	// the hub, else peer_silent.
	Cause   status.Cause `json:"cause,omitempty"`
	RTTms   float64      `json:"rtt_ms"`   // the shortest round trip to the hub; 0: none was measured yet
	SilentS float64      `json:"silent_s"` // for how long the hub has owed a sign of life
	// UnackedBytes were sent, and the hub's machine has not acknowledged them; MaxPayload is the size of the
	// largest message that the hub takes, in bytes, 0: not known.
	UnackedBytes int `json:"unacked_bytes"`
	MaxPayload   int `json:"max_payload"`
}

// RoundTrip is what follows "connected" in a text; "" where it would read as none at all.
func (h *Hub) RoundTrip() string {
	if h.RTTms < 0.005 {
		return ""
	}
	return ", round trip " + ui.Millis(h.RTTms)
}

// Achd says what the daemon does for programs that speak achd's protocol.
type Achd struct {
	Listen  string       `json:"listen"`
	Clients []AchdClient `json:"clients"`
	Waiting int          `json:"waiting"` // connections without a request yet
	Frames  uint64       `json:"frames"`  // sent and taken since the daemon began
	Refused uint64       `json:"refused"` // clients turned away or dropped since then
}

// AchdClient is one connection.
type AchdClient struct {
	Addr      string `json:"addr"`
	Channel   string `json:"channel"`
	Transport string `json:"transport"` // tcp or udp
	Writes    bool   `json:"writes"`    // it sends the frames
	Frames    uint64 `json:"frames"`
}

// Push is the body of POST /v1/push.
type Push struct {
	rule.Push
	// AcceptMachine lets commands and pushes go to the machine that the host runs on now.
	AcceptMachine bool `json:"accept_machine,omitempty"`
}

type UnmirrorRequest struct {
	Host    string `json:"host"`
	Channel string `json:"channel"`
	Remove  bool   `json:"remove"`
}

// UnmirrorReply says what became of the mirrors that the wish had made.
type UnmirrorReply struct {
	Mirrors []Unmirrored `json:"mirrors"`
}

// Unmirrored is a mirror that a wish had made before the wish was taken back.
type Unmirrored struct {
	Host    string   `json:"host"`
	Channel string   `json:"channel"`
	Name    string   `json:"mirrored_as"`
	QoS     rule.QoS `json:"qos"`
	// Still is another wish that mirrors the channel now; null: it is not mirrored any more.
	Still *rule.Mirror `json:"still"`
}

type ErrorReply struct {
	Error string `json:"error"`
}

// LayoutReply is what the origin of a channel says of its frames.
type LayoutReply struct {
	Host    string `json:"host"`
	Channel string `json:"channel"`
	Layout  []byte `json:"layout"`        // as layout.Unpack takes it; null: the origin says nothing, or see Why
	Why     string `json:"why,omitempty"` // the origin has a layout, and it is not here
}

// PeekReply names the mirror that a reader may open.
type PeekReply struct {
	Mirror    string `json:"mirrored_as"`
	Temporary bool   `json:"temporary"` // the daemon removes it after its last viewer has left
}

// ReloadReply is the result of reading the configuration again. The lists hold keys.
type ReloadReply struct {
	File    string   `json:"file"`
	Changed []string `json:"changed"` // changed and in effect
	Restart []string `json:"restart"` // changed, but in effect only after a restart
	// Warnings are as of achbridge check: rules that never apply.
	Warnings []string `json:"warnings"`
}

// Unlisted is a host, and how many of its channels cannot be listed.
type Unlisted struct {
	Host  string `json:"host"`
	Count int    `json:"count"`         // 0: unknown
	Far   string `json:"far,omitempty"` // why the host is not dialled, and the cure
}

// PingReply is what became of one packet to a host and back, and what is known of its link.
type PingReply struct {
	RTTms *float64    `json:"rtt_ms"` // null: it was lost
	Why   string      `json:"why"`    // the link runs over its transport
	Link  status.Link `json:"link"`
}

// LoadReply is what a load test has found, beside what the mirrors that go the same way need.
type LoadReply struct {
	status.Load
	Mirrors    int      `json:"mirrors"`
	NeededMbit float64  `json:"needed_mbit"`
	Problems   []string `json:"problems"` // budgets that cannot hold; never null
}

// WhyReport is the answer of achbridge why. Lists are never null.
type WhyReport struct {
	Of     string `json:"of"`                    // HOST/CHANNEL
	Mirror string `json:"mirrored_as,omitempty"` // name of the mirror on this host
	// Health is that of the mirror; at the origin, of the worst of its mirrors elsewhere. Empty:
	// there is none.
	Health status.Health `json:"health,omitempty"`
	// Unauthenticated is as in status.Mirror.
	Unauthenticated bool `json:"unauthenticated,omitempty"`
	diagnose.Finding
	Notes   []diagnose.Finding `json:"notes"` // further findings
	WindowS float64            `json:"window_s"`
}
