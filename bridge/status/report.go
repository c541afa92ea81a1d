package status

import (
	"encoding/json"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/via"
)

// Report is what the node knows of itself. Its JSON keys are used by programs.
type Report struct {
	Host    string  `json:"host"`
	Node    string  `json:"node"`
	UptimeS float64 `json:"uptime_s"`
	// ProcessorWait is the share of the last seconds in which a thread of the daemon was ready to run but waited for a
	// processor; null: the kernel does not tell.
	ProcessorWait *float64 `json:"processor_wait"`
	// NoInotify is why the kernel does not report new channels to the daemon, which then looks for them four times a
	// second; empty: it does.
	NoInotify string `json:"no_inotify,omitempty"`
	// Copied is a peer's report that another machine has the node id of this host; empty if there was none in the last hour.
	Copied  string         `json:"copied,omitempty"`
	Links   []Link         `json:"links"`
	Mirrors []Mirror       `json:"mirrors"`
	Exports []Subscription `json:"exports"`
	Pushes  []Push         `json:"pushes"`
	Locals  []Local        `json:"channels"`
	Peers   []Peer         `json:"peers"`
	// Events counts what happened since the daemon began, as the metrics have it.
	Events map[EventKind]uint64 `json:"-"`
}

// Link is one authenticated association with another node.
type Link struct {
	Peer      string    `json:"peer"` // host name
	Node      string    `json:"node"`
	Addr      string    `json:"addr"`
	Transport via.Kind  `json:"transport"`
	Way       Way       `json:"way"`   // direct, or by the hub
	State     LinkState `json:"state"` // up, or silent: nothing is heard though it should be
	SilentS   float64   `json:"silent_s,omitempty"`
	Dialled   bool      `json:"dialled"` // by us
	UpS       float64   `json:"up_s"`
	RTTms     float64   `json:"rtt_ms"`
	// PathMbit is what the way to the peer was measured to carry when it was last
	// full, in Mbit/s; null: it never was.
	PathMbit           *float64     `json:"path_mbit"`
	Inbound            *InboundPath `json:"from_peer"`       // the other way, as the peer tells; null: it has not yet
	ClockOffsetMs      float64      `json:"clock_offset_ms"` // its monotonic clock minus ours
	ClockUncertaintyMs float64      `json:"clock_uncertainty_ms"`
	// DatagramBytes is the largest that the path carries at once, without the headers.
	DatagramBytes int `json:"datagram_bytes"`
	// CopyAt is the address of another machine that has the peer's node id; empty if none was heard in the last hour.
	CopyAt string `json:"copy_at,omitempty"`
	// OtherWay describes another way to the peer that is being tried or cannot be taken; empty if there is none.
	OtherWay string `json:"other_way,omitempty"`
	// LeftOut is how many channels the peer offers beyond those that are kept account of.
	LeftOut int `json:"channels_left_out,omitempty"`
	Traffic `json:"traffic"`
}

// InboundPath is what the peer has told last of the way from it to us, and of itself.
type InboundPath struct {
	AtS      float64  `json:"at_s"`      // the peer's time then
	FullS    float64  `json:"full_s"`    // as in Traffic, of the peer
	PathMbit *float64 `json:"path_mbit"` // as in LinkStatus, of the peer
	Sent     uint64   `json:"packets_sent"`
	Lost     uint64   `json:"packets_lost"`
	// ProcessorWait is as in Report, of the peer; null: hardly any, or it does not tell.
	ProcessorWait *float64 `json:"processor_wait"`
}

// Traffic counts what a link has carried since it came up. Packets are ours, without
// what the transport sends on its own; bytes are without its headers. Two looks give
// rates.
type Traffic struct {
	Sent      uint64 `json:"packets_sent"` // with frames, or asking for an answer
	Lost      uint64 `json:"packets_lost"` // of those, by what the peer reports
	SentBytes uint64 `json:"sent_bytes"`
	Received  uint64 `json:"packets_received"`
	// Missed are the packets of the peer that did not come: by their numbers, so that it
	// includes those that are still to come.
	Missed        uint64 `json:"packets_missed"`
	ReceivedBytes uint64 `json:"received_bytes"`
	// FullS is for how long frames have waited because the path, by what is known of it,
	// could take no more.
	FullS float64 `json:"full_s"`
}

// Mirror is one local copy of a remote channel, wanted or running.
type Mirror struct {
	Host    string      `json:"host"`
	Channel string      `json:"channel"`
	Name    string      `json:"mirrored_as"`
	Way     Way         `json:"way,omitempty"` // by which its frames come now; empty: no link feeds it
	State   MirrorState `json:"state"`         // live, stale, contested, waiting, refused: there is none, or no frame can be put
	QoS     rule.QoS    `json:"qos"`
	Reason  string      `json:"reason,omitempty"`
	Cause   Cause       `json:"cause,omitempty"` // of the reason, when it is one that programs may ask for
	// RefusedBy is the host that refuses, where the cause is; empty: this one does, or none.
	RefusedBy string `json:"refused_by,omitempty"`
	Seq       uint64 `json:"seq"` // of the newest frame, as the origin counts
	// Bytes is the size of the frame that came last, as it was sent, and TransitMs how old
	// it was when it did, in time or late; null while that cannot be told.
	Bytes     int      `json:"frame_bytes"`
	TransitMs *float64 `json:"transit_ms"`
	// OriginCause is why its origin cannot read the channel, as it tells; empty: it can.
	OriginCause Cause `json:"origin_cause,omitempty"`
	// LockWaitS is for how long frames have waited in all for a local process to let go of
	// the mirror's lock.
	LockWaitS float64 `json:"lock_wait_s,omitempty"`
	// AgeMs is the age of the newest frame now, null while it cannot be told. It
	// grows while nothing comes, also without a link.
	AgeMs *float64 `json:"age_ms"`
	// Unauthenticated: its frames come by achd's protocol, so that nothing proves who sends them. AgeMs is null then, since
	// nothing tells when a frame was put; SinceArrivalMs is for how long the newest has been here, PeriodMs the time
	// between two arrivals. OneSided: the origin tells nothing of frames that it did not send, so that frames has
	// only those that came.
	Unauthenticated bool     `json:"unauthenticated,omitempty"`
	SinceArrivalMs  *float64 `json:"since_arrival_ms,omitempty"`
	OneSided        bool     `json:"one_sided,omitempty"`
	// PeriodMs is the time between two frames that the mirror is to get, as they came
	// lately and as max_rate lets them through; DueMs for how long the next one has been
	// due, which is AgeMs less that, and never below 0. Null while it cannot be told. The
	// mirror is over its budget while DueMs is more than that.
	PeriodMs *float64 `json:"period_ms"`
	DueMs    *float64 `json:"due_ms"`
	// Age is what the age was over time, null before it was known.
	Age             *Age `json:"age"`
	ledger.Accounts `json:"frames"`
	// LostShare is the share of the frames of the last ten seconds that did not get into the mirror, as LostRatio counts
	// them; null if none was offered.
	LostShare *float64 `json:"lost_share"`
	// AtHub is how many frames a newer one replaced at the hub since it was linked; they count as superseded.
	AtHub    uint64 `json:"superseded_at_hub,omitempty"`
	Replaced uint64 `json:"replaced"`     // times the mirror's file had to be replaced
	Foreign  uint64 `json:"foreign_puts"` // frames in it that somebody else has put, in this run of the daemon
	// Temporary: it is there for somebody who looks at the channel, and goes with him.
	Temporary bool `json:"temporary,omitempty"`
	// StaleS is for how long its deadline has been over, whatever the state: only frames in
	// time count. Safe is how often the safe frame of on_stale was put.
	StaleS float64 `json:"stale_s,omitempty"`
	// LateS is for how long all frames that came were late, a second and two frames at least;
	// 0: one was in time, or late frames are as good (late deliver).
	LateS float64 `json:"late_s"`
	Safe  uint64  `json:"safe_puts,omitempty"`
	// TypeHash names the layout that its origin tells; empty: it tells none. It changes with the layout.
	TypeHash string `json:"type_hash,omitempty"`
	// Misfit is nil unless a type of its frames is known here that the newest frame does not fit.
	Misfit *Misfit `json:"misfit,omitempty"`
}

// Misfit says how the newest frame of a channel does not fit the type of its frames. It is carried all
// the same, and shown as bytes.
type Misfit struct {
	Why      string     `json:"why"`
	TypeFrom TypeSource `json:"type_from"`
}

// TypeSource is where the type of a channel's frames is from.
type TypeSource string

// A type is from this host's own configuration, or from the origin of a mirror.
const (
	TypeFromFile   TypeSource = "file"
	TypeFromOrigin TypeSource = "origin"
)

// Health says in one word how the mirror is. A word of a newer daemon is kept.
func (m Mirror) Health() Health {
	switch m.State {
	case MirrorContested:
		return HealthRefused
	case MirrorLive:
		if m.LateS > 0 || m.DueMs != nil && *m.DueMs > Ms(m.QoS.EffectiveBudget()) {
			return HealthLate
		}
	}
	return Health(m.State)
}

// MarshalJSON adds the key health.
func (m Mirror) MarshalJSON() ([]byte, error) {
	type plain Mirror
	return json.Marshal(struct {
		plain
		Health Health `json:"health"`
	}{plain(m), m.Health()})
}

// Subscription is one subscription of a peer to a channel of ours.
type Subscription struct {
	Channel string   `json:"channel"`
	Peer    string   `json:"peer"`
	QoS     rule.QoS `json:"qos"`
	Seq     uint64   `json:"seq"`              // newest frame known to have arrived; 0: none is, as always in mode every
	Bytes   int      `json:"frame_bytes"`      // of the frame sent last, as it was sent
	Reason  string   `json:"reason,omitempty"` // why the channel could not be read, or its frame not be sent, when last tried
	Cause   Cause    `json:"cause,omitempty"`  // of the reason
	// ReaderWaitS, TransitMs and ReaderCause are what the peer has told last of its mirror:
	// LockWaitS, TransitMs, and Cause if it takes no frames; budget if all come late.
	ReaderWaitS float64  `json:"reader_lock_wait_s,omitempty"`
	TransitMs   *float64 `json:"transit_ms"`
	ReaderCause Cause    `json:"reader_cause,omitempty"`
	// AgeMs is the age of the newest frame in the channel, null when it was put before
	// anybody looked; PeriodMs and DueMs are as in MirrorStatus.
	AgeMs           *float64 `json:"age_ms"`
	PeriodMs        *float64 `json:"period_ms"`
	DueMs           *float64 `json:"due_ms"`
	ledger.Accounts `json:"frames"`
	// WithRoom counts the superseded frames that the link had room for: this host looked or sent too late.
	WithRoom uint64 `json:"superseded_with_room"`
	// AtHub counts the superseded frames that a newer one replaced at the hub.
	AtHub uint64 `json:"superseded_at_hub,omitempty"`
}

// Health says in one word how the mirror at the other end is, by what is known here.
func (s Subscription) Health() Health {
	switch {
	case s.Reason != "" || s.ReaderCause != "" && s.ReaderCause != CauseBudget:
		return HealthRefused
	case s.ReaderCause == CauseBudget:
		return HealthLate
	}
	return HealthLive
}

// Push is one wish to push.
type Push struct {
	rule.Push
	State  PushState `json:"state"` // waiting, accepted, refused
	Reason string    `json:"reason,omitempty"`
	Cause  Cause     `json:"cause,omitempty"`
	// Unauthenticated: the frames go by achd's protocol, so that nothing proves who gets them.
	Unauthenticated bool `json:"unauthenticated,omitempty"`
}

// Local is one channel of this host.
type Local struct {
	Channel    string `json:"channel"`
	FrameCount int    `json:"frame_count"`
	FrameSize  int    `json:"frame_size"`
	Seq        uint64 `json:"seq"`
	Exported   bool   `json:"exported"`
	Reason     string `json:"reason,omitempty"` // why it is not, or what is wrong with it
	Cause      Cause  `json:"cause,omitempty"`
	// Misfit is as in Mirror, by types of this host.
	Misfit *Misfit `json:"misfit,omitempty"`
}

// Peer is one other node that we know of.
type Peer struct {
	Host  string    `json:"host"` // as it proved on a link, or else as is said
	Node  string    `json:"node,omitempty"`
	Addrs []string  `json:"addrs"`
	State PeerState `json:"state"` // linked, dialling, known; missed: nothing tells of it any more, and it is dialled for a while
	Error string    `json:"error,omitempty"`
	Cause Cause     `json:"cause,omitempty"` // of the error
	// OwnCertificate: the peer says so of this host's certificate, not we of its.
	OwnCertificate bool `json:"own_certificate,omitempty"`
	// Network is of the key by which it proved itself when it linked; empty: it is not linked.
	Network string `json:"network,omitempty"`
	// ListedAs is what it is listed as, if that is not its name.
	ListedAs string `json:"listed_as,omitempty"`
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
	Way        Way      `json:"way,omitempty"`    // of the link with its host; empty: it is only announced
	Closed     bool     `json:"closed,omitempty"` // its host does not let this one read it
	// Unproved: somebody announces it under the name of a host that has proved to be another node.
	Unproved bool `json:"unproved,omitempty"`
	// CopyAt is the same as in Link.
	CopyAt string `json:"copy_at,omitempty"`
	// AnnouncedBy is what a host with achd calls itself; empty for hosts with achbridge.
	AnnouncedBy string `json:"announced_by,omitempty"`
}
