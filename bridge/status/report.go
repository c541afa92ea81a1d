// Package status defines what a node reports: its links, mirrors, exports, peers and events, in the form that JSON and
// metrics have.
package status

import (
	"encoding/json"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/via"
)

// Report is the status of the node. Its JSON keys are an external interface.
type Report struct {
	Host    string  `json:"host"`
	Node    string  `json:"node"`
	UptimeS float64 `json:"uptime_s"`
	// CPUWait is the recent share of time in which a thread of the daemon was ready to run but waited for
	// a CPU. It is null if the kernel does not report that.
	CPUWait *float64 `json:"processor_wait"`
	// NoInotify is why the kernel does not report new channels; the daemon then polls for them four times a
	// second. It is empty if inotify works.
	NoInotify string `json:"no_inotify,omitempty"`
	// NoDSCP is the reason why the kernel refuses to mark packets with a DSCP. All packets are then sent as best effort. NoDSCP
	// is empty unless the kernel has refused a mark.
	NoDSCP string `json:"no_dscp,omitempty"`
	// Copied is a peer's report that another machine has the node ID of this host. It is empty if there was none
	// in the last hour.
	Copied  string         `json:"copied,omitempty"`
	Links   []Link         `json:"links"`
	Mirrors []Mirror       `json:"mirrors"`
	Exports []Subscription `json:"exports"`
	Pushes  []Push         `json:"pushes"`
	Locals  []Local        `json:"channels"`
	// Locks has the operator locks of this host's channels that a host holds, and those of the channels that this host
	// pushes, as their hosts reported them.
	Locks []Lock `json:"locks"`
	Peers []Peer `json:"peers"`
	// Events counts the events since the daemon started, for the metrics.
	Events map[EventKind]uint64 `json:"-"`
}

// Link is one authenticated association with another node.
type Link struct {
	Peer      string    `json:"peer"` // host name
	Node      string    `json:"node"`
	Addr      string    `json:"addr"`
	Transport via.Kind  `json:"transport"`
	Way       Way       `json:"way"`   // direct, or over the hub
	State     LinkState `json:"state"` // up, or silent if nothing was received for too long
	SilentS   float64   `json:"silent_s,omitempty"`
	Dialled   bool      `json:"dialled"` // this host dialled
	UpS       float64   `json:"up_s"`
	RTTms     float64   `json:"rtt_ms"`
	// PathMbit is the capacity of the path to the peer in Mbit/s, measured when the path was last full. It is
	// null if the path was never full.
	PathMbit           *float64     `json:"path_mbit"`
	Inbound            *InboundPath `json:"from_peer"`       // the path from the peer, as the peer reports it; null before its first report
	ClockOffsetMs      float64      `json:"clock_offset_ms"` // the peer's monotonic clock minus ours
	ClockUncertaintyMs float64      `json:"clock_uncertainty_ms"`
	// DatagramBytes is the largest datagram that the path carries, without headers.
	DatagramBytes int `json:"datagram_bytes"`
	// DSCP is the mark of the packets to the peer, as in CS6. CS0 is best effort.
	DSCP string `json:"dscp"`
	// CopyAt is the address of another machine that has the peer's node ID. It is empty if none was seen in the
	// last hour.
	CopyAt string `json:"copy_at,omitempty"`
	// OtherWay describes another route to the peer that is being tried or cannot be used. It is empty if there
	// is none.
	OtherWay string `json:"other_way,omitempty"`
	// LeftOut is the number of channels that the peer offers beyond the catalog limit.
	LeftOut int `json:"channels_left_out,omitempty"`
	Traffic `json:"traffic"`
}

// InboundPath is the peer's last report about the path from it to us, and about itself.
type InboundPath struct {
	AtS      float64  `json:"at_s"`      // the peer's time of the report
	FullS    float64  `json:"full_s"`    // as in Traffic, for the peer
	PathMbit *float64 `json:"path_mbit"` // as in Link, for the peer
	Sent     uint64   `json:"packets_sent"`
	Lost     uint64   `json:"packets_lost"`
	// CPUWait is as in Report, for the peer. It is null if it is close to 0, or the peer does not report
	// it.
	CPUWait *float64 `json:"processor_wait"`
}

// Traffic counts the traffic of a link since it was established. Packets are achbridge's, without those that the
// transport sends for itself; bytes exclude transport headers. The difference of two samples gives rates.
type Traffic struct {
	Sent      uint64 `json:"packets_sent"` // packets with frames, or packets that request an acknowledgement
	Lost      uint64 `json:"packets_lost"` // part of Sent: packets that the peer reports as lost
	SentBytes uint64 `json:"sent_bytes"`
	Received  uint64 `json:"packets_received"`
	// Missed counts the peer's packets that did not arrive, computed from packet numbers. It includes packets
	// that are still in flight.
	Missed        uint64 `json:"packets_missed"`
	ReceivedBytes uint64 `json:"received_bytes"`
	// FullS is how long frames have waited because the path could carry no more, by its measured capacity.
	FullS float64 `json:"full_s"`
}

// Stamps reports how the time stamps in the frames of a mirror are shifted to this host's clock.
type Stamps struct {
	OffsetS    float64 `json:"offset_s"`    // this host's CLOCK_MONOTONIC minus the origin's, at the last frame; 0 before the first
	ErrorMs    float64 `json:"error_ms"`    // greatest error of the offset
	Expired    uint64  `json:"expired"`     // commands that had expired at their arrival; they count as late
	DurationMs float64 `json:"duration_ms"` // validity of the last expired command
	Unparsed   uint64  `json:"unparsed"`    // frames that were put unchanged, since they have no stamps of this kind
}

// Mux reports the state of a mux. It belongs to the status of the mux's output.
type Mux struct {
	Winner  string     `json:"winner"`  // input whose frames are put; empty if no input is live
	SinceS  float64    `json:"since_s"` // how long it has won, or no input has been live
	Changes uint64     `json:"changes"` // how often the winner has changed
	Inputs  []MuxInput `json:"inputs"`  // in order of priority, the highest first
}

// MuxInput reports the state of one input of a mux.
type MuxInput struct {
	Channel string `json:"channel"`
	State   string `json:"state"`            // silent (no live frame yet), live, expired, or held (live again, but not yet for long enough)
	Reason  string `json:"reason,omitempty"` // why its newest frame cannot be live, or why there is none
	Frames  uint64 `json:"frames"`           // frames that were read
	Put     uint64 `json:"put"`              // frames that were put into the output
	Refused uint64 `json:"refused"`          // frames whose expiry or capture time is unknown
}

// Merge is the state of a merge. It is part of the status of the merge's output.
type Merge struct {
	Mirrors int `json:"mirrors"` // number of mirrors whose frames go into the output; these are called OUTPUT/HOST
	Fed     int `json:"fed"`     // number of these mirrors that a link feeds
}

// Unshifted reports that the frames of a mirror without the option stamps seem to have time stamps of another clock.
type Unshifted struct {
	Host          string  `json:"host"`            // origin of the stamps
	Rule          string  `json:"rule"`            // the option for the fields that look like time stamps
	UptimeS       float64 `json:"uptime_s"`        // CLOCK_MONOTONIC of this host
	OriginUptimeS float64 `json:"origin_uptime_s"` // CLOCK_MONOTONIC of the origin
}

// Mirror is the local copy of a remote channel, running or only requested.
type Mirror struct {
	Host    string      `json:"host"`
	Channel string      `json:"channel"`
	Name    string      `json:"mirrored_as"`
	Way     Way         `json:"way,omitempty"` // route of its frames; empty if no link feeds it
	State   MirrorState `json:"state"`         // live, stale, contested, waiting, or refused (there is no mirror, or no frame can be put)
	QoS     rule.QoS    `json:"qos"`
	Reason  string      `json:"reason,omitempty"` // why it is not live; else which input of the mux wins, or who holds the operator lock
	Cause   Cause       `json:"cause,omitempty"`  // cause of the reason; empty if the reason has no machine-readable cause
	// RefusedBy is the host that refuses the mirror, where the cause is. It is empty if this host refuses it, or no
	// host does.
	RefusedBy string `json:"refused_by,omitempty"`
	Seq       uint64 `json:"seq"` // number of the newest frame at the origin
	// Bytes is the transmitted size of the frame that arrived last. OneWayDelayMs is the age of that frame at its
	// arrival, late or not; null if unknown.
	Bytes         int      `json:"frame_bytes"`
	OneWayDelayMs *float64 `json:"transit_ms"`
	// OriginCause is why the origin cannot read the channel, as the origin reports. It is empty if the origin
	// can read it.
	OriginCause Cause `json:"origin_cause,omitempty"`
	// LockWaitS is the total time for which frames have waited while a local process held the mirror's lock.
	LockWaitS float64 `json:"lock_wait_s,omitempty"`
	// Stamps has the state of the option stamps; it is null without the option.
	Stamps *Stamps `json:"stamps,omitempty"`
	// Mux has the state of the mux that feeds the mirror, which is then the mux's output; null for other mirrors.
	Mux *Mux `json:"mux,omitempty"`
	// Kernel has the state of the copy of the mirror in the kernel; null if there is none.
	Kernel *KernelCopy `json:"kernel,omitempty"`
	// Merge is set if the mirror is the output of a merge; otherwise it is null. The output counts no frames: each mirror of the
	// merge counts those of its host.
	Merge *Merge `json:"merge,omitempty"`
	// Into is the output of the merge that gets the frames; empty if the mirror has a channel of its own.
	Into string `json:"into,omitempty"`
	// Unshifted is set if the option seems to be missing. It is null if it is set, or if the clocks agree to a second.
	Unshifted *Unshifted `json:"unshifted,omitempty"`
	// AgeMs is the current age of the newest frame; null if unknown. It grows while nothing arrives, even
	// without a link.
	AgeMs *float64 `json:"age_ms"`
	// Unauthenticated reports that frames arrive by achd's protocol, so that their sender is not proven. AgeMs
	// is then null, since the time of the put is unknown. Instead, SinceArrivalMs is the time since the newest
	// frame arrived, and PeriodMs is the time between two arrivals. OneSided reports that the origin does not
	// report unsent frames, so that the frame counters only include frames that arrived.
	Unauthenticated bool     `json:"unauthenticated,omitempty"`
	SinceArrivalMs  *float64 `json:"since_arrival_ms,omitempty"`
	OneSided        bool     `json:"one_sided,omitempty"`
	// PeriodMs is the expected time between two frames, from recent arrivals and max_rate. DueMs is how long the
	// next frame has been due: AgeMs minus PeriodMs, at least 0. Both are null if unknown. The mirror is over
	// its budget while DueMs exceeds the budget.
	PeriodMs *float64 `json:"period_ms"`
	DueMs    *float64 `json:"due_ms"`
	// Age is the age over time; null until an age is known.
	Age                  *Age `json:"age"`
	ledger.FrameCounters `json:"frames"`
	// LostShare is the share of the frames of the last ten seconds that did not get into the mirror, see
	// ledger.FrameCounters.LostRatio. It is null if no frame was offered.
	LostShare *float64 `json:"lost_share"`
	// AtHub counts the frames that a newer one replaced at the hub since the mirror was linked to the hub. They
	// count as superseded.
	AtHub    uint64 `json:"superseded_at_hub,omitempty"`
	Replaced uint64 `json:"replaced"`     // number of times that the mirror's file was replaced
	Foreign  uint64 `json:"foreign_puts"` // frames in it by foreign writers, in this incarnation of the daemon
	// Temporary reports that the mirror exists for a viewer and is removed with the viewer.
	Temporary bool `json:"temporary,omitempty"`
	// StaleS is how long the deadline has been exceeded, whatever the state. Only frames in time count. Safe
	// counts the puts of the on_stale safe frame.
	StaleS float64 `json:"stale_s,omitempty"`
	// LateS is how long only late frames have arrived: at least two, over at least a second. It is 0 if a frame
	// was in time.
	LateS float64 `json:"late_s"`
	Safe  uint64  `json:"safe_puts,omitempty"`
	// TypeHash identifies the layout that the origin advertises, and changes with the layout. It is empty if the
	// origin advertises none.
	TypeHash string `json:"type_hash,omitempty"`
	// Mismatch is set if the newest frame does not match the layout known here, and nil otherwise.
	Mismatch *Mismatch `json:"misfit,omitempty"`
}

// Mismatch describes how the newest frame of a channel does not match its layout. The frame is still carried, and
// shown as bytes.
type Mismatch struct {
	Why      string     `json:"why"`
	TypeFrom TypeSource `json:"type_from"`
}

// TypeSource is the source of a channel's layout.
type TypeSource string

// A layout is from this host's own configuration, or from the origin of a mirror.
const (
	TypeFromFile   TypeSource = "file"
	TypeFromOrigin TypeSource = "origin"
)

// Health returns the health of the mirror. It keeps state values of newer daemons.
func (m Mirror) Health() Health {
	switch m.State {
	case MirrorForeignWriter:
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

// Subscription is one subscription of a peer to a local channel.
type Subscription struct {
	Channel string   `json:"channel"`
	Peer    string   `json:"peer"`
	QoS     rule.QoS `json:"qos"`
	Seq     uint64   `json:"seq"`              // newest frame known to have arrived; 0 if unknown, as always in mode every
	Bytes   int      `json:"frame_bytes"`      // transmitted size of the last frame
	Reason  string   `json:"reason,omitempty"` // why the channel could not be read or its frame not be sent, at the last try
	Cause   Cause    `json:"cause,omitempty"`  // cause of the reason
	// ReaderWaitS, OneWayDelayMs and ReaderCause are the peer's last report about its mirror. They hold the mirror's
	// LockWaitS and OneWayDelayMs, and its Cause if it accepts no frames, or budget if all frames are late.
	ReaderWaitS   float64  `json:"reader_lock_wait_s,omitempty"`
	OneWayDelayMs *float64 `json:"transit_ms"`
	ReaderCause   Cause    `json:"reader_cause,omitempty"`
	// AgeMs is the age of the newest frame in the channel. It is null if the frame was put before the channel
	// was watched. PeriodMs and DueMs are as in Mirror.
	AgeMs                *float64 `json:"age_ms"`
	PeriodMs             *float64 `json:"period_ms"`
	DueMs                *float64 `json:"due_ms"`
	ledger.FrameCounters `json:"frames"`
	// WithRoom counts superseded frames for which the link had room: this host polled or sent too late.
	WithRoom uint64 `json:"superseded_with_room"`
	// AtHub counts superseded frames that a newer one replaced at the hub.
	AtHub uint64 `json:"superseded_at_hub,omitempty"`
}

// Health returns the health of the peer's mirror, as far as it is known here.
func (s Subscription) Health() Health {
	switch {
	case s.Reason != "" || s.ReaderCause != "" && s.ReaderCause != CauseBudget:
		return HealthRefused
	case s.ReaderCause == CauseBudget:
		return HealthLate
	}
	return HealthLive
}

// Push is one push request.
type Push struct {
	rule.Push
	State  PushState `json:"state"` // waiting, accepted, refused
	Reason string    `json:"reason,omitempty"`
	Cause  Cause     `json:"cause,omitempty"`
	// Unauthenticated reports that the frames are sent by achd's protocol, so that their receiver is not proven.
	Unauthenticated bool `json:"unauthenticated,omitempty"`
}

// Lock is the operator lock of a channel: only the pushes of its holder are accepted.
type Lock struct {
	Host       string   `json:"host"`    // host of the channel
	Channel    string   `json:"channel"` // name on that host
	Holder     string   `json:"holder"`  // host that holds the lock; empty means nobody
	State      string   `json:"state"`   // nobody, held, or in_grace if nothing arrives from the holder
	Generation uint64   `json:"generation,omitempty"`
	HeldS      float64  `json:"held_s"` // since the lock was taken
	LeftS      *float64 `json:"left_s"` // until the lock ends; null means that it has no end
	Mine       bool     `json:"mine"`   // this host holds the lock
}

// Kind is where the frames of a channel are.
type Kind string

// KernelCopy is the state of a mirror's copy in the kernel.
type KernelCopy struct {
	Reason  string `json:"reason,omitempty"`  // why frames cannot be copied; empty if they can
	Omitted bool   `json:"omitted,omitempty"` // the mirror is too large for the kernel, which is no problem of the mirror
	Written uint64 `json:"written"`           // frames that were written into the kernel channel
	Skipped uint64 `json:"skipped"`           // frames of the mirror that were not, since a newer one replaced them or they do not fit
	Foreign uint64 `json:"foreign"`           // frames that other programs have written into the kernel channel
}

// KindKernel means the kernel's Ach module. The empty Kind means shared memory.
const KindKernel Kind = "kernel"

// Edit describes a frame that another host put after it had changed fields.
type Edit struct {
	Host     string      `json:"host"`
	Channel  string      `json:"channel"`
	Seq      uint64      `json:"seq"`       // number of the frame
	AnswerMs float64     `json:"answer_ms"` // time from the request to the answer
	Fields   []FieldEdit `json:"fields"`
}

// FieldEdit is the change of one field.
type FieldEdit struct {
	Field  string `json:"field"` // path of the field
	Before string `json:"before"`
	After  string `json:"after"`
}

// Local is one channel of this host.
type Local struct {
	Channel    string `json:"channel"`
	FrameCount int    `json:"frame_count"`
	FrameSize  int    `json:"frame_size"`
	Seq        uint64 `json:"seq"`
	Exported   bool   `json:"exported"`
	Reason     string `json:"reason,omitempty"` // why the channel is not exported, or what is wrong with it
	Cause      Cause  `json:"cause,omitempty"`
	// Ach1x means that a program made the channel with Ach 1.x. achbridge reads such a channel, but never writes into it.
	Ach1x  bool   `json:"ach_1x,omitempty"`
	Kind   Kind   `json:"kind,omitempty"`
	Missed uint64 `json:"missed,omitempty"` // frames of a kernel channel that were replaced before the daemon read them
	// Waking means that a put was waking readers at the time of the report. If two reports in a row have it and the same Seq, the
	// put hangs.
	Waking bool `json:"waking,omitempty"`
	// Mismatch is as in Mirror, for layouts of this host.
	Mismatch *Mismatch `json:"misfit,omitempty"`
}

// Peer is another node that this host knows.
type Peer struct {
	Host  string    `json:"host"` // name proven on a link, otherwise the announced name
	Node  string    `json:"node,omitempty"`
	Addrs []string  `json:"addrs"`
	State PeerState `json:"state"` // linked, dialling, missed (no longer announced, and still dialled for a while), or known
	Error string    `json:"error,omitempty"`
	Cause Cause     `json:"cause,omitempty"` // cause of the error
	// OwnCertificate reports that the error is about this host's certificate, and that the peer reported it.
	OwnCertificate bool `json:"own_certificate,omitempty"`
	// Network is the network of the key by which the peer is authenticated. It is empty if the peer is not
	// linked.
	Network string `json:"network,omitempty"`
	// ListedAs is the configured name of the peer, if it differs from its own name.
	ListedAs string `json:"listed_as,omitempty"`
}

// RemoteChannel is a channel that another host offers.
type RemoteChannel struct {
	Host       string   `json:"host"`
	Channel    string   `json:"channel"`
	FrameCount int      `json:"frame_count"`
	FrameSize  int      `json:"frame_size"`
	Kind       Kind     `json:"kind,omitempty"`
	Node       string   `json:"node"`
	Addrs      []string `json:"addrs"`
	MirroredAs string   `json:"mirrored_as"`
	Way        Way      `json:"way,omitempty"`    // route of the link with its host; empty if the channel is only announced
	Closed     bool     `json:"closed,omitempty"` // the origin's rules deny this host the channel
	// Unproved reports that the announcement uses the name of a host that has proven to be another node.
	Unproved bool `json:"unproved,omitempty"`
	// CopyAt is the same as in Link.
	CopyAt string `json:"copy_at,omitempty"`
	// AnnouncedBy is the announced name of a host with achd. It is empty for hosts with achbridge.
	AnnouncedBy string `json:"announced_by,omitempty"`
}
