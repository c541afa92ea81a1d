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
}

// LinkStatus is one authenticated association with another node.
type LinkStatus struct {
	Peer               string  `json:"peer"` // host name
	Node               string  `json:"node"`
	Addr               string  `json:"addr"`
	Transport          string  `json:"transport"`
	Dialled            bool    `json:"dialled"` // by us
	UpS                float64 `json:"up_s"`
	RTTms              float64 `json:"rtt_ms"`
	ClockOffsetMs      float64 `json:"clock_offset_ms"` // its monotonic clock minus ours
	ClockUncertaintyMs float64 `json:"clock_uncertainty_ms"`
}

// MirrorStatus is one local copy of a remote channel, wanted or running.
type MirrorStatus struct {
	Host    string `json:"host"`
	Channel string `json:"channel"`
	Name    string `json:"mirrored_as"`
	State   string `json:"state"` // live, waiting, refused
	Reason  string `json:"reason,omitempty"`
	Seq     uint64 `json:"seq"` // of the newest frame, as the origin counts
	// AgeMs is the age of the newest frame now, null while it cannot be told.
	AgeMs    *float64 `json:"age_ms"`
	Accounts `json:"frames"`
	Replaced uint64 `json:"replaced"` // times the mirror's file had to be replaced
	Foreign  uint64 `json:"foreign_puts"`
}

// ExportStatus is one subscription of a peer to a channel of ours.
type ExportStatus struct {
	Channel  string `json:"channel"`
	Peer     string `json:"peer"`
	Seq      uint64 `json:"seq"`              // newest frame known to have arrived
	Reason   string `json:"reason,omitempty"` // why the channel could not be read when last tried
	Accounts `json:"frames"`
}

// Accounts counts the frames of one subscription by what became of them, as
// the side that shows them knows it.
type Accounts struct {
	Offered    uint64 `json:"offered"`
	Delivered  uint64 `json:"delivered"`
	Superseded uint64 `json:"superseded"`
	Lost       uint64 `json:"lost"`
	Refused    uint64 `json:"refused"`
	InFlight   uint64 `json:"in_flight"`
	Duplicate  uint64 `json:"duplicate"`
	Repaired   uint64 `json:"repaired"`
}

// PushStatus is one wish to push.
type PushStatus struct {
	Push
	State  string `json:"state"` // waiting, accepted, refused
	Reason string `json:"reason,omitempty"`
}

// LocalStatus is one channel of this host.
type LocalStatus struct {
	Channel    string `json:"channel"`
	FrameCount int    `json:"frame_count"`
	FrameSize  int    `json:"frame_size"`
	Seq        uint64 `json:"seq"`
	Exported   bool   `json:"exported"`
	Reason     string `json:"reason,omitempty"` // why it is not, or what is wrong with it
}

// PeerStatus is one other node that we know of.
type PeerStatus struct {
	Host  string   `json:"host"`
	Node  string   `json:"node,omitempty"`
	Addrs []string `json:"addrs"`
	State string   `json:"state"` // linked, dialling, known
	Error string   `json:"error,omitempty"`
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
}
