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

// Config holds the parameters that Hosts get from the node.
type Config struct {
	Dir    localach.Dir
	Source ring.Source
	Dial   achd.Dial // nil means achd.DialNetwork
	Log    *slog.Logger
	Now    func() time.Duration
	// Backoff waits after a number of consecutive failures, or until ctx ends. A connection that lasted at least Settled
	// resets that number.
	Backoff func(ctx context.Context, failures int)
	Settled time.Duration
	Spawn   func(func())      // starts a goroutine
	Call    func(func()) bool // runs a function on the node's goroutine, and waits until it returns
	// MayPublish returns nil if a channel may be sent, otherwise ErrCommand or ErrEcho. Any goroutine may call it.
	MayPublish func(channel string) error
	Warn       func(message string, e status.Event, args ...any) // logs a problem, at a limited rate
}

var (
	// ErrCommand is returned for a channel whose frames need a timestamp and an authenticated sender.
	ErrCommand = errors.New("it carries commands, which achd cannot carry")
	// ErrEcho is returned for a channel whose frames would return to their origin.
	ErrEcho = errors.New("it came by achd itself, and would circulate without end")
)

// Hosts connects to hosts that run achd but not achbridge.
type Hosts struct {
	cfg         Config
	ctx         context.Context
	isExplained bool // explain has logged its warning
}

// NewHosts returns Hosts whose connections end with ctx.
func NewHosts(ctx context.Context, cfg Config) *Hosts { return &Hosts{cfg: cfg, ctx: ctx} }

// explain warns once that achd's protocol has no authentication and no encryption.
func (h *Hosts) explain() {
	if !h.isExplained {
		h.cfg.Log.Warn("achd protocol used without authentication or encryption, any program at the addresses of these hosts can write the mirrors and read the pushes")
	}
	h.isExplained = true
}

// remote returns the client for one channel of a host.
func (h *Hosts) remote(at rule.Achd, channel string, qos rule.QoS) achd.Remote {
	return achd.Remote{
		Host: at.Host, Port: at.Port, Channel: channel, UDP: at.UDP, Dial: h.cfg.Dial,
		Newest: qos.Mode == rule.Newest, Period: qos.MaxRate.Interval(),
	}
}

// keepConnecting makes one connection after another until ctx ends. once returns the time at which its connection was
// established (0 if it was not) and why it ended. keepConnecting passes that error to ended on the node's goroutine.
func (h *Hosts) keepConnecting(ctx context.Context, once func() (up time.Duration, err error), ended func(error)) {
	for failures := 0; ctx.Err() == nil; h.cfg.Backoff(ctx, failures) {
		up, err := once()
		failures++
		if up != 0 && h.cfg.Now() >= up+h.cfg.Settled {
			failures = 0
		}
		h.call(ctx, func() { ended(err) })
	}
}

// call runs f on the node's goroutine, unless ctx has ended by then.
func (h *Hosts) call(ctx context.Context, f func()) {
	h.cfg.Call(func() {
		if ctx.Err() == nil {
			f()
		}
	})
}

// causeOf returns the status cause for a connection's error.
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

// causeOfEnd returns the status cause for the end of a connection.
func causeOfEnd(err error) status.Cause {
	if cause := causeOf(err); cause != status.CauseOther {
		return cause
	}
	return status.CausePeerSilent
}
