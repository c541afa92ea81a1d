package achdway

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"achbridge/bridge/achd"
	"achbridge/localach"
)

// achd sends nothing any more after its channel was removed and created again, until it is asked again. So a silent
// connection gets a standby, which takes over if it gets a frame first. Otherwise both read the same
// channel, no frame is lost or put twice, and the standby ends. A standby costs the host a process, so it lasts longer and longer.
const (
	silentFor     = 10 * time.Second
	mostSilentFor = 2 * time.Minute
)

// line is one connection to a host with achd. Of a connection and its standby, exactly one has its turn: it feeds the mirror.
type line struct {
	turn   *sync.Mutex // shared by a connection and its standby; guards the following two fields of both
	isFed  bool        // it has its turn
	count  uint64      // frames that arrived
	up     time.Duration
	cancel context.CancelFunc
	done   chan struct{} // closed at the end of the connection
	err    error         // why it ended; valid after done is closed
}

// dial begins a connection, or the standby of one.
func (c *Consumer) dial(ctx context.Context, remote achd.Remote, standbyOf *line) *line {
	ctx, cancel := context.WithCancel(ctx)
	l := &line{turn: &sync.Mutex{}, cancel: cancel, done: make(chan struct{})}
	begin := l.first
	if standbyOf != nil {
		l.turn = standbyOf.turn
		begin = l.standby(standbyOf)
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

// first begins a connection that feeds the mirror at once.
func (l *line) first(begin func() (func([]byte), error)) (func([]byte), error) {
	put, err := begin()
	l.isFed = true
	return func(frame []byte) {
		l.turn.Lock()
		defer l.turn.Unlock()
		if l.isFed {
			l.count++
			put(frame)
		}
	}, err
}

// standby returns the function that begins a standby of a connection. The standby takes the turn at its first frame, unless the
// other got one since the standby began.
func (l *line) standby(of *line) func(func() (func([]byte), error)) (func([]byte), error) {
	return func(begin func() (func([]byte), error)) (func([]byte), error) {
		before := of.frames()
		var put func([]byte)
		return func(frame []byte) {
			l.turn.Lock()
			defer l.turn.Unlock()
			if put == nil {
				if of.count != before {
					l.cancel()
					return
				}
				of.isFed = false
				of.cancel()
				var err error
				if put, err = begin(); err != nil {
					l.cancel()
					return
				}
				l.isFed = true
			}
			l.count++
			put(frame)
		}, nil
	}
}

func (l *line) frames() uint64 {
	l.turn.Lock()
	defer l.turn.Unlock()
	return l.count
}

func (l *line) hasTurn() bool {
	l.turn.Lock()
	defer l.turn.Unlock()
	return l.isFed
}

// wait returns why the connection ended, if it ends within the time.
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

// end ends the connection and waits until its goroutine has ended.
func (l *line) end() {
	l.cancel()
	<-l.done
}
