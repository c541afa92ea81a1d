package achdway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"achbridge/bridge/achd"
	"achbridge/bridge/mirror"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// Config has what Hosts need of the node.
type Config struct {
	Dir    localach.Dir
	Source ring.Source
	Dial   achd.Dial // nil: over the network
	Log    *slog.Logger
	Now    func() time.Duration
	// Backoff returns the pause after a number of failures in a row. A connection that lasted for Settled ends the row.
	Backoff func(failures int) time.Duration
	Settled time.Duration
	Spawn   func(func())      // starts a goroutine
	Call    func(func()) bool // runs a function on the node's goroutine, and waits for it
	// MayPublish returns why a channel may not be sent, ErrCommand or ErrEcho, or nil. It is called from any goroutine.
	MayPublish func(channel string) error
	Warn       func(message string, e status.Event, args ...any) // logs trouble, not too often
}

var (
	// ErrCommand is returned for a channel whose frames need a date and a proved sender.
	ErrCommand = errors.New("it carries commands, which achd cannot carry")
	// ErrEcho is returned for a channel whose frames would return to the host that they come from.
	ErrEcho = errors.New("it comes by achd itself, and would go round for ever")
)

// Hosts connects to hosts that have achd and no achbridge.
type Hosts struct {
	cfg         Config
	ctx         context.Context
	isExplained bool // explain has logged
}

// NewHosts returns Hosts whose connections end with ctx.
func NewHosts(ctx context.Context, cfg Config) *Hosts { return &Hosts{cfg: cfg, ctx: ctx} }

// explain logs once what the protocol lacks.
func (h *Hosts) explain() {
	if !h.isExplained {
		h.cfg.Log.Warn("achd's protocol is used with hosts that rules name: it has no authentication and no encryption, so whoever can answer at their addresses decides what is in the mirrors, and reads what is pushed")
	}
	h.isExplained = true
}

// remote returns a channel at a host, as a client asks for it.
func (h *Hosts) remote(at rule.Achd, channel string, qos rule.QoS) achd.Remote {
	return achd.Remote{
		Host: at.Host, Port: at.Port, Channel: channel, UDP: at.UDP, Dial: h.cfg.Dial,
		Newest: qos.Mode == rule.Newest, Period: qos.MaxRate.Interval(),
	}
}

// keepConnecting makes one connection after the other until ctx ends. once returns since when its connection was up, 0 for
// never, and why it ended. ended gets that error on the node's goroutine.
func (h *Hosts) keepConnecting(ctx context.Context, once func() (up time.Duration, err error), ended func(error)) {
	for failures := 0; ctx.Err() == nil; pause(ctx, h.cfg.Backoff(failures)) {
		up, err := once()
		failures++
		if up != 0 && h.cfg.Now() >= up+h.cfg.Settled {
			failures = 0
		}
		h.call(ctx, func() { ended(err) })
	}
}

// call runs f on the node's goroutine unless ctx has ended there.
func (h *Hosts) call(ctx context.Context, f func()) {
	h.cfg.Call(func() {
		if ctx.Err() == nil {
			f()
		}
	})
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// causeOf returns the cause of a connection's error.
func causeOf(err error) status.Cause {
	switch {
	case errors.Is(err, localach.ErrHole):
		return status.CauseBadFrame
	case errors.Is(err, achd.ErrNoChannel):
		return status.CauseNoChannel
	case errors.Is(err, achd.ErrRefused):
		return status.CauseExportRule
	case errors.Is(err, errTooLarge):
		return status.CauseLimit
	}
	return mirror.CauseOf(err)
}

// causeOfEnd returns the cause of a connection's end.
func causeOfEnd(err error) status.Cause {
	if cause := causeOf(err); cause != status.CauseOther {
		return cause
	}
	return status.CausePeerSilent
}
