package daemon

import (
	"cmp"
	"sync"
	"time"

	"achbridge/cmd/achbridge/api"
)

// overview is the daemon's status: made for who asks on the control socket, and shared
// by all who watch over HTTP. Safe for concurrent use.
type overview struct {
	look func() api.StatusReply
	good time.Duration // for how long a status is good at least; 0: overviewGood

	mu    sync.Mutex
	last  api.StatusReply
	made  time.Time     // zero: not yet
	share time.Duration // how long last is good for
}

// A status is good for a second, but for those who look once a second; and so long
// that making them takes a fortieth of one processor at most.
const (
	overviewGood = 900 * time.Millisecond
	overviewRest = 40

	readyGood = 50 * time.Millisecond // who asks whether all is well asks seldom, or means no good
)

// now returns a status that is hardly older than a second, unless one takes more than
// 25 ms, and when it was made. Nobody changes it.
func (o *overview) now() (api.StatusReply, time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.made.IsZero() || time.Since(o.made) > o.share {
		o.renew()
	}
	return o.last, o.made
}

// fresh returns the status of this moment, which then serves who watches too.
func (o *overview) fresh() api.StatusReply {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.renew()
	return o.last
}

// renew needs o.mu.
func (o *overview) renew() {
	began := time.Now()
	o.last = o.look()
	o.made = time.Now()
	o.share = max(cmp.Or(o.good, overviewGood), overviewRest*o.made.Sub(began))
}
