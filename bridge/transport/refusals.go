package transport

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"achbridge/bridge/logline"
	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

// refusals logs refused peers: one line a second for each address, and for at most maxVoices
// addresses a second, since addresses can be forged. The next line has the number of omitted
// lines.
type refusals struct {
	log     *slog.Logger
	network func() string // returns our network

	mu     sync.Mutex
	last   map[string]time.Time // time of the last line; key: host part of the address
	silent int                  // lines omitted since the last one

	ousted  logline.Limit // limits the lines about dropped handshakes
	began   time.Time     // zero of the clock of ousted
	telling bool          // a line about dropped handshakes is being written
}

const (
	refusalPeriod = time.Second
	maxVoices     = 32
)

func newRefusals(log *slog.Logger, network func() string) *refusals {
	return &refusals{log: log, network: network, last: make(map[string]time.Time), ousted: logline.Limit{Period: refusalPeriod}, began: time.Now()}
}

// Report logs that the node at addr refused us or that we refused it. This makes no difference
// to the operator.
func (r *refusals) Report(addr net.Addr, c trust.Claim, err error) {
	silent, due := r.due(addr, time.Now())
	if !due {
		return
	}
	attrs := []any{"peer", addr.String()}
	if c.Host != "" {
		attrs = append(attrs, "host", c.Host)
	}
	if errors.Is(err, trust.ErrRevoked) || errors.Is(err, trust.ErrNotNow) { // the network is the same
		r.log.Warn("certificate refused", counted(append(attrs, "err", err), silent)...)
		return
	}
	attrs = append(attrs, "network", r.network())
	if c.Network != "" {
		attrs = append(attrs, "peer_network", c.Network)
	}
	attrs = counted(attrs, silent)
	if errors.Is(err, trust.ErrWrongKey) {
		r.log.Warn(trust.ErrWrongKey.Error(), attrs...)
		return
	}
	r.log.Info("unknown peer refused", append(attrs, "err", err)...)
}

// atLimit logs, at most once a second, that a handshake was dropped in favour of others.
// It does not wait for the log.
func (r *refusals) atLimit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ousted.Add()
	if r.telling {
		return
	}
	n, due := r.ousted.Due(time.Since(r.began))
	if !due {
		return
	}
	r.telling = true
	go func() {
		r.log.Warn("too many handshakes, dropping the oldest", "count", n)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.telling = false
	}()
}

// counted adds the number of omitted lines to attrs.
func counted(attrs []any, silent int) []any {
	if silent == 0 {
		return attrs
	}
	return append(attrs, "count", silent)
}

// due reports whether a line about addr may be logged now, and returns the number of lines
// omitted since the last one.
func (r *refusals) due(addr net.Addr, now time.Time) (silent int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for host, at := range r.last {
		if now.Sub(at) >= refusalPeriod {
			delete(r.last, host)
		}
	}
	host := session.HostOf(addr)
	if _, hasReported := r.last[host]; hasReported || len(r.last) >= maxVoices {
		r.silent++
		return 0, false
	}
	r.last[host] = now
	silent, r.silent = r.silent, 0
	return silent, true
}
