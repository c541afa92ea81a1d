package daemon

import (
	"cmp"
	"sync"
	"time"

	"achbridge/cmd/achbridge/api"
)

// overview caches the daemon's status. Requests on the control socket get a new status;
// all HTTP clients share the cached one. It is safe for concurrent use.
type overview struct {
	sample func() api.StatusReply
	good   time.Duration // minimum time for which a status is cached; 0 means overviewGood

	mu    sync.Mutex
	last  api.StatusReply
	made  time.Time     // zero before the first status
	share time.Duration // time for which last is cached
}

// A status is cached for a little less than a second, so that a client that polls once a
// second always gets a new one. It is cached for longer if making it would otherwise take
// more than a fortieth of one CPU.
const (
	overviewGood = 900 * time.Millisecond
	overviewRest = 40

	readyGood = 50 * time.Millisecond // for /readyz: honest clients poll seldom, so this limits only floods
)

// now returns the cached status and its creation time. The status is at most about a second
// old, unless making one takes more than 25 ms. Callers must not change the status.
func (o *overview) now() (api.StatusReply, time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.made.IsZero() || time.Since(o.made) > o.share {
		o.renew()
	}
	return o.last, o.made
}

// fresh returns a new status and caches it.
func (o *overview) fresh() api.StatusReply {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.renew()
	return o.last
}

// renew replaces the cached status. o.mu must be held.
func (o *overview) renew() {
	began := time.Now()
	o.last = o.sample()
	o.made = time.Now()
	o.share = max(cmp.Or(o.good, overviewGood), overviewRest*o.made.Sub(began))
}
