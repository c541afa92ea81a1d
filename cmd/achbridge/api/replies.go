package api

import (
	"time"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/diagnose"
)

// DaemonInfo is what status tells of the daemon beside its node.
type DaemonInfo struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	Network string `json:"network"`
	Listen  string `json:"listen"`
	HTTP    string `json:"http,omitempty"` // where it serves its page and metrics
	Control string `json:"control"`
	// CertificateEnds is when the certificate of this host ends; not there without one.
	CertificateEnds *time.Time `json:"certificate_ends,omitempty"`
	// Revocations is the number of the list that counts.
	Revocations uint64 `json:"revocations,omitempty"`
}

// DaemonSetup is how a daemon was told to look at its host, by whatever flags. Paths are
// absolute.
type DaemonSetup struct {
	Config     string   `json:"config"` // empty: there is none
	Key        string   `json:"key"`
	State      string   `json:"state"` // empty: the usual place
	Discovery  string   `json:"discovery"`
	Interfaces []string `json:"interfaces"` // empty: all
}

type StatusReply struct {
	DaemonInfo
	Goroutines int `json:"goroutines"` // of the daemon; more at each look is a leak to report
	status.Report
}

type UnmirrorRequest struct {
	Host    string `json:"host"`
	Channel string `json:"channel"`
	Remove  bool   `json:"remove"`
}

type ErrorReply struct {
	Error string `json:"error"`
}

// PeekReply names the mirror that is there to be looked at.
type PeekReply struct {
	Mirror    string `json:"mirrored_as"`
	Temporary bool   `json:"temporary"` // it goes with the last who looks
}

// ReloadReply is what reading the configuration again came to. Lists are of keys.
type ReloadReply struct {
	File    string   `json:"file"`
	Changed []string `json:"changed"` // in effect now
	Restart []string `json:"restart"` // changed, and in effect after a restart
}

// Unlisted is a host and how many of its channels cannot be listed.
type Unlisted struct {
	Host  string `json:"host"`
	Count int    `json:"count"`         // 0: nobody knows
	Far   string `json:"far,omitempty"` // why it is not dialled, and the cure
}

// WhyReport is what why answers. Lists are never null.
type WhyReport struct {
	Of     string `json:"of"`                    // HOST/CHANNEL
	Mirror string `json:"mirrored_as,omitempty"` // here
	diagnose.Finding
	Notes   []diagnose.Finding `json:"notes"` // what is worth knowing beside it
	WindowS float64            `json:"window_s"`
}
