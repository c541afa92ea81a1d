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
	// Foxglove is the URL for viewers, without the token.
	Foxglove string `json:"foxglove,omitempty"`
	Control  string `json:"control"`
	// CertificateEnds is when this host's certificate expires; nil without a certificate.
	CertificateEnds *time.Time `json:"certificate_ends,omitempty"`
	// Revocations is the number of the revocation list in effect.
	Revocations uint64 `json:"revocations,omitempty"`
}

// DaemonSetup has the daemon's settings that doctor needs to check the same files and interfaces, and facts that doctor
// cannot see from outside. Paths are absolute.
type DaemonSetup struct {
	Config     string   `json:"config"` // empty if there is no configuration file
	Key        string   `json:"key"`
	State      string   `json:"state"` // empty means the default directory
	Discovery  string   `json:"discovery"`
	Interfaces []string `json:"interfaces"` // empty means all interfaces
	// Memberships has an entry for each interface and family that the daemon uses for mDNS now. It is empty if there are
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
	Goroutines int   `json:"goroutines"`     // goroutines in the daemon; a number that keeps growing is a bug
	Achd       *Achd `json:"achd,omitempty"` // nil if achd's protocol is off
	Hub        *Hub  `json:"hub,omitempty"`  // nil if no hub is used
	// Recorder is the state of the flight recorder; nil if there is none.
	Recorder *Recorder `json:"recorder,omitempty"`
	status.Report
	// Problems lists the problems of all this, the most costly first, as in achbridge why. Unless a client polls
	// repeatedly, it has only the problems that a single sample shows. It is never null.
	Problems []diagnose.Problem `json:"troubles"`
}

// ProblemsReport is the answer of achbridge why without a channel.
type ProblemsReport struct {
	Host     string             `json:"host"`
	Mirrors  int                `json:"mirrors"`
	Problems []diagnose.Problem `json:"troubles"` // the most costly first; never null
	WindowS  float64            `json:"window_s"`
}

// Hub is the state of the connection to this host's hub.
type Hub struct {
	Address   string  `json:"address"` // tls://HOST:PORT
	Connected bool    `json:"connected"`
	SinceS    float64 `json:"since_s"`         // how long the hub has been connected, or disconnected
	Error     string  `json:"error,omitempty"` // why the hub is not connected
	// Cause is the cause of the error: key if the hub refuses this host's credentials, certificate if the answering host
	// is not the hub, else peer_silent.
	Cause   status.Cause `json:"cause,omitempty"`
	RTTms   float64      `json:"rtt_ms"`   // shortest round trip to the hub; 0 means that none was measured yet
	SilentS float64      `json:"silent_s"` // how long a heartbeat of the hub has been overdue
	// UnackedBytes were sent, and the hub's machine has not acknowledged them. MaxPayload is the size of the largest
	// message that the hub accepts, in bytes; 0 means unknown.
	UnackedBytes int `json:"unacked_bytes"`
	MaxPayload   int `json:"max_payload"`
}

// RoundTrip returns the text that follows "connected". It is "" if the round trip would be displayed as zero.
func (h *Hub) RoundTrip() string {
	if h.RTTms < 0.005 {
		return ""
	}
	return ", round trip " + ui.Millis(h.RTTms)
}

// Achd describes what the daemon does for programs that use achd's protocol.
type Achd struct {
	Listen  string       `json:"listen"`
	Clients []AchdClient `json:"clients"`
	Waiting int          `json:"waiting"` // connections without a request yet
	Frames  uint64       `json:"frames"`  // sent and received since the daemon started
	Refused uint64       `json:"refused"` // clients refused or disconnected since then
}

// AchdClient is one connection of a client.
type AchdClient struct {
	Addr      string `json:"addr"`
	Channel   string `json:"channel"`
	Transport string `json:"transport"` // tcp or udp
	Writes    bool   `json:"writes"`    // the client sends the frames
	Frames    uint64 `json:"frames"`
}

// Push is the body of POST /v1/push.
type Push struct {
	rule.Push
	// AcceptMachine lets commands and pushes go to the machine that the host runs on now.
	AcceptMachine bool `json:"accept_machine,omitempty"`
}

// MuxRequest is the body of POST /v1/mux. The answer is the status of the output.
type MuxRequest struct {
	Rule      string `json:"rule"` // as rule.ParseMux reads it, without the option safe
	SafeFile  string `json:"safe_file,omitempty"`
	SafeFrame []byte `json:"safe_frame,omitempty"`
}

// UnmuxRequest is the body of POST /v1/unmux.
type UnmuxRequest struct {
	Output string `json:"output"`
}

// ForgetRequest asks to forget a host.
type ForgetRequest struct {
	Host string `json:"host"`
}

// ForgetReply has the names of the mirrors that were removed. The list is never null.
type ForgetReply struct {
	Removed []string `json:"removed"`
}

type UnmirrorRequest struct {
	Host    string `json:"host"`
	Channel string `json:"channel"`
	Remove  bool   `json:"remove"`
}

// UnmirrorReply reports the outcome for the mirrors that the request had made.
type UnmirrorReply struct {
	Mirrors []Unmirrored `json:"mirrors"`
}

// Unmirrored is a mirror that a request had made before it was withdrawn.
type Unmirrored struct {
	Host    string   `json:"host"`
	Channel string   `json:"channel"`
	Name    string   `json:"mirrored_as"`
	QoS     rule.QoS `json:"qos"`
	// Still is another request that mirrors the channel now; null if the channel is no longer mirrored.
	Still *rule.Mirror `json:"still"`
}

type ErrorReply struct {
	Error string `json:"error"`
}

// LayoutReply is the layout of a channel's frames by its origin.
type LayoutReply struct {
	Host    string `json:"host"`
	Channel string `json:"channel"`
	Layout  []byte `json:"layout"`        // packed, for layout.DecodeLayout; null if the origin has no layout, or if Why is set
	Why     string `json:"why,omitempty"` // why the origin's layout is not available here
}

// TemporaryMirrorReply names the mirror that a reader may open.
type TemporaryMirrorReply struct {
	Mirror    string `json:"mirrored_as"`
	Temporary bool   `json:"temporary"` // the daemon removes the mirror after its last viewer has disconnected
}

// ReloadReply is the result of reading the configuration again. The lists hold keys.
type ReloadReply struct {
	File    string   `json:"file"`
	Changed []string `json:"changed"` // changed keys that are in effect
	Restart []string `json:"restart"` // changed keys that take effect only after a restart
	// Warnings are those of achbridge check: rules that never apply.
	Warnings []string `json:"warnings"`
}

// Unlisted is a host and the number of its channels that cannot be listed.
type Unlisted struct {
	Host  string `json:"host"`
	Count int    `json:"count"`         // 0 means unknown
	Far   string `json:"far,omitempty"` // why the host is not dialled, with the fix
}

// PingReply is the result of one packet to a host and back, with the state of the link.
type PingReply struct {
	RTTms *float64    `json:"rtt_ms"` // null if the packet was lost
	Why   string      `json:"why"`    // why the link runs over its transport
	Link  status.Link `json:"link"`
}

// LoadReply is the result of a load test, with the needs of the mirrors on the same path.
type LoadReply struct {
	status.Load
	Mirrors    int      `json:"mirrors"`
	NeededMbit float64  `json:"needed_mbit"`
	Problems   []string `json:"problems"` // budgets that cannot be met; never null
}

// WhyReport is the answer of achbridge why. Lists are never null.
type WhyReport struct {
	Of     string `json:"of"`                    // HOST/CHANNEL
	Mirror string `json:"mirrored_as,omitempty"` // name of the mirror on this host
	// Health is the health of the mirror; at the origin, the worst health of its mirrors on other hosts. It is empty if
	// there is no mirror.
	Health status.Health `json:"health,omitempty"`
	// Unauthenticated is as in status.Mirror.
	Unauthenticated bool `json:"unauthenticated,omitempty"`
	diagnose.Finding
	Notes   []diagnose.Finding `json:"notes"` // further findings
	WindowS float64            `json:"window_s"`
}

// Take is the body of POST /v1/take. For is a time such as 10m; empty means without end.
type Take struct {
	Channel string `json:"channel"` // HOST/CHANNEL
	For     string `json:"for,omitempty"`
	Force   bool   `json:"force,omitempty"`
}

// Put is the body of POST /v1/put.
type Put struct {
	Channel string      `json:"channel"` // HOST/CHANNEL
	Fields  []FieldEdit `json:"fields"`  // changed in this order
}

// FieldEdit is the new value of a field, or the value that it must have.
type FieldEdit struct {
	Path   string `json:"path"`
	Value  string `json:"value"`
	Expect bool   `json:"expect,omitempty"`
}

// Release is the body of POST /v1/release. To is the host that gets the lock; empty means nobody.
type Release struct {
	Channel string `json:"channel"` // HOST/CHANNEL
	To      string `json:"to,omitempty"`
}
