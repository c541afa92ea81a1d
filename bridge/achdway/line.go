package achdway

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"achbridge/bridge/achd"
	"achbridge/localach"
)

// achd sends nothing more on a connection once its channel was removed and created again. Only a new request gets frames. So if no
// frame arrives for silentFor, the consumer opens a second connection, the standby. If the standby gets a frame first, it replaces
// the connection. If the connection gets a frame first, its channel is the same as before, and the standby ends. In both cases no
// frame is lost or put twice. Each standby costs the host a process, so the time until the next one doubles, up to mostSilentFor.
const (
	silentFor     = 10 * time.Second
	mostSilentFor = 2 * time.Minute
)

// line is one connection to a host with achd. Either the connection or its standby feeds the mirror, never both.
type line struct {
	mu        *sync.Mutex   // shared by a connection and its standby; guards isFeeding and count of both
	isFeeding bool          // frames are put into the mirror
	count     uint64        // frames passed to the mirror
	up        time.Duration // node time at which the connection was established; 0 if it was not
	cancel    context.CancelFunc
	done      chan struct{} // closed at the end of the connection
	err       error         // why the connection ended; valid after done is closed
}

// beginFunc prepares the mirror for the frames of a connection, and returns the function that puts them.
type beginFunc func() (put func([]byte), err error)

// dial starts a connection in its own goroutine. standbyOf is the connection that it may replace, or nil.
func (c *Consumer) dial(ctx context.Context, remote achd.Remote, standbyOf *line) *line {
	ctx, cancel := context.WithCancel(ctx)
	l := &line{mu: &sync.Mutex{}, cancel: cancel, done: make(chan struct{})}
	begin := l.first
	if standbyOf != nil {
		l.mu = standbyOf.mu
		begin = func(b beginFunc) (func([]byte), error) { return l.standby(standbyOf, b) }
	}
	c.hosts.cfg.Spawn(func() {
		defer close(l.done)
		l.err = remote.Pull(ctx, func(g localach.Geometry, from netip.Addr) (func([]byte), error) {
			return begin(func() (put func([]byte), err error) {
				l.up, err = c.hosts.cfg.Now(), context.Canceled
				c.hosts.call(ctx, func() {
					if put, err = c.begin(ctx, g); err == nil {
						c.hangUp, c.from = cancel, from
					}
				})
				return put, err
			})
		})
	})
	return l
}

// first returns the function that handles the frames of a connection that feeds the mirror from its beginning.
func (l *line) first(begin beginFunc) (func([]byte), error) {
	put, err := begin()
	l.isFeeding = true
	return func(frame []byte) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.isFeeding {
			l.count++
			put(frame)
		}
	}, err
}

// standby returns the function that handles the frames of l, a standby of the connection of. At its first frame, l replaces of.
// If of got a frame since l was established, l ends instead.
func (l *line) standby(of *line, begin beginFunc) (func([]byte), error) {
	before := of.frames()
	var put func([]byte)
	return func(frame []byte) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if put == nil {
			if of.count != before {
				l.cancel()
				return
			}
			of.isFeeding = false
			of.cancel()
			var err error
			if put, err = begin(); err != nil {
				l.cancel()
				return
			}
			l.isFeeding = true
		}
		l.count++
		put(frame)
	}, nil
}

func (l *line) frames() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// feeds reports whether the connection feeds the mirror.
func (l *line) feeds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isFeeding
}

// wait blocks until the connection ends, for at most limit. err is the reason why it ended.
func (l *line) wait(limit time.Duration) (err error, ended bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.done:
		return l.err, true
	case <-timer.C:
		return nil, false
	}
}

// end closes the connection and waits for its goroutine.
func (l *line) end() {
	l.cancel()
	<-l.done
}
