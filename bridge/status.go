package bridge

// Status is what the node knows of itself. Its JSON keys are used by programs.
type Status struct {
	Host    string         `json:"host"`
	Node    string         `json:"node"`
	UptimeS float64        `json:"uptime_s"`
	Links   []LinkStatus   `json:"links"`
	Mirrors []MirrorStatus `json:"mirrors"`
	Exports []ExportStatus `json:"exports"`
	Pushes  []PushStatus   `json:"pushes"`
	Locals  []LocalStatus  `json:"channels"`
	Peers   []PeerStatus   `json:"peers"`
	// Events counts what happened since the daemon began, as the metrics have it.
	Events map[EventKind]uint64 `json:"-"`
}

// LinkStatus is one authenticated association with another node.
type LinkStatus struct {
	Peer      string  `json:"peer"` // host name
	Node      string  `json:"node"`
	Addr      string  `json:"addr"`
	Transport string  `json:"transport"`
	State     string  `json:"state"` // up, or silent: nothing is heard though it should be
	SilentS   float64 `json:"silent_s,omitempty"`
	Dialled   bool    `json:"dialled"` // by us
	UpS       float64 `json:"up_s"`
	RTTms     float64 `json:"rtt_ms"`
	// PathMbit is what the way to the peer was measured to carry when it was last
	// full, in Mbit/s; null: it never was.
	PathMbit           *float64 `json:"path_mbit"`
	ClockOffsetMs      float64  `json:"clock_offset_ms"` // its monotonic clock minus ours
	ClockUncertaintyMs float64  `json:"clock_uncertainty_ms"`
	// DatagramBytes is the largest that the path carries at once, without the headers.
	DatagramBytes int `json:"datagram_bytes"`
	Traffic       `json:"traffic"`
}

// MirrorStatus is one local copy of a remote channel, wanted or running.
type MirrorStatus struct {
	Host    string `json:"host"`
	Channel string `json:"channel"`
	Name    string `json:"mirrored_as"`
	State   string `json:"state"` // live, stale, waiting, refused
	QoS     QoS    `json:"qos"`
	Reason  string `json:"reason,omitempty"`
	Cause   Cause  `json:"cause,omitempty"` // of the reason, when it is one that programs may ask for
	Seq     uint64 `json:"seq"`             // of the newest frame, as the origin counts
	// Bytes is the size of the frame that came last, as it was sent, and TransitMs how old
	// it was when it did, in time or late; null while that cannot be told.
	Bytes     int      `json:"frame_bytes"`
	TransitMs *float64 `json:"transit_ms"`
	// LockWaitS is for how long frames have waited in all for a local process to let go of
	// the mirror's lock.
	LockWaitS float64 `json:"lock_wait_s,omitempty"`
	// AgeMs is the age of the newest frame now, null while it cannot be told. It
	// grows while nothing comes, also without a link.
	AgeMs *float64 `json:"age_ms"`
	// Age is what the age was over time, null before it was known.
	Age      *AgeStatus `json:"age"`
	Accounts `json:"frames"`
	Replaced uint64 `json:"replaced"` // times the mirror's file had to be replaced
	Foreign  uint64 `json:"foreign_puts"`
	// Temporary: it is there for somebody who looks at the channel, and goes with him.
	Temporary bool `json:"temporary,omitempty"`
	// StaleS is for how long its deadline has been over, whatever the state; Safe how
	// often the safe frame of on_stale was put.
	StaleS float64 `json:"stale_s,omitempty"`
	Safe   uint64  `json:"safe_puts,omitempty"`
}

// ExportStatus is one subscription of a peer to a channel of ours.
type ExportStatus struct {
	Channel  string `json:"channel"`
	Peer     string `json:"peer"`
	QoS      QoS    `json:"qos"`
	Seq      uint64 `json:"seq"`              // newest frame known to have arrived
	Bytes    int    `json:"frame_bytes"`      // of the frame sent last, as it was sent
	Reason   string `json:"reason,omitempty"` // why the channel could not be read when last tried
	Accounts `json:"frames"`
}

// Accounts is the ledger of one channel in one direction: what became of the
// frames that its origin has put. Always
//
//	offered = delivered + late_kept + superseded + rate_limited + expired +
//	          lost + late + refused + overflow + in_flight
//
// Both ends show the same once the traffic has stopped. Duplicate and repaired
// are counted beside it.
type Accounts struct {
	Offered     uint64 `json:"offered"`
	Delivered   uint64 `json:"delivered"`    // put into the mirror in time
	LateKept    uint64 `json:"late_kept"`    // put past its budget, since nothing newer had replaced it
	Superseded  uint64 `json:"superseded"`   // a newer frame took its place
	RateLimited uint64 `json:"rate_limited"` // passed over between two slots of max_rate
	Expired     uint64 `json:"expired"`      // given up at the origin, past its budget
	Lost        uint64 `json:"lost"`         // by the network, or unknown when the link ended
	Late        uint64 `json:"late"`         // arrived past its budget, not put
	Refused     uint64 `json:"refused"`      // could not be put
	Overflow    uint64 `json:"overflow"`     // mode every: gone from the ring before it could be sent
	InFlight    uint64 `json:"in_flight"`    // fate not known yet
	Duplicate   uint64 `json:"duplicate"`
	Repaired    uint64 `json:"repaired"`
}

// PushStatus is one wish to push.
type PushStatus struct {
	Push
	State  string `json:"state"` // waiting, accepted, refused
	Reason string `json:"reason,omitempty"`
	Cause  Cause  `json:"cause,omitempty"`
}

// LocalStatus is one channel of this host.
type LocalStatus struct {
	Channel    string `json:"channel"`
	FrameCount int    `json:"frame_count"`
	FrameSize  int    `json:"frame_size"`
	Seq        uint64 `json:"seq"`
	Exported   bool   `json:"exported"`
	Reason     string `json:"reason,omitempty"` // why it is not, or what is wrong with it
	Cause      Cause  `json:"cause,omitempty"`
}

// PeerStatus is one other node that we know of.
type PeerStatus struct {
	Host  string   `json:"host"`
	Node  string   `json:"node,omitempty"`
	Addrs []string `json:"addrs"`
	State string   `json:"state"` // linked, dialling, known; missed: nothing tells of it any more, and it is dialled for a while
	Error string   `json:"error,omitempty"`
	Cause Cause    `json:"cause,omitempty"` // of the error
}

// RemoteChannel is one channel that a linked peer offers.
type RemoteChannel struct {
	Host       string   `json:"host"`
	Channel    string   `json:"channel"`
	FrameCount int      `json:"frame_count"`
	FrameSize  int      `json:"frame_size"`
	Node       string   `json:"node"`
	Addrs      []string `json:"addrs"`
	MirroredAs string   `json:"mirrored_as"`
	Closed     bool     `json:"closed,omitempty"` // its host does not let this one read it
}
