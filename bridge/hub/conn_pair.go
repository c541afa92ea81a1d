package hub

import (
	"context"
	"errors"
	"sync"
	"time"
)

// connPair holds the two connections of this host to the hub. Control messages and frames up to smallFrame
// use one, so that they do not wait behind larger frames on the other. The pair ends when either
// connection ends.
type connPair struct {
	flow         *flow
	small, large *hubConn
	work         sync.WaitGroup // goroutines that end with the pair
	done         chan struct{}

	mu  sync.Mutex
	err error
}

const (
	// pingSmall and pingLarge are the intervals at which a silent connection is pinged.
	pingSmall = 250 * time.Millisecond
	pingLarge = time.Second
	// leastPatience is the smallest timeout for a sign of life.
	leastPatience = 500 * time.Millisecond
)

// dialPair opens both connections and authenticates. The end of ctx cancels it.
func (c *Client) dialPair(ctx context.Context, f *flow) (*connPair, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	l := &connPair{flow: f, done: make(chan struct{})}
	var wait sync.WaitGroup
	conns, errs := [2]*hubConn{}, [2]error{}
	for i := range conns {
		wait.Go(func() {
			if conns[i], errs[i] = c.dialConn(ctx, l.flow, i == 0); errs[i] != nil {
				cancel()
			}
		})
	}
	wait.Wait()
	l.small, l.large = conns[0], conns[1]
	err := firstCause(errs[:])
	for _, h := range conns {
		if h != nil && err == nil {
			err = h.open()
		}
	}
	if err != nil {
		l.end(err)
		return nil, explain(c.credentials, c.credentials.Hub, err)
	}
	return l, nil
}

// maxPayload returns the maximum size of a message, which the hub may change at any time.
func (l *connPair) maxPayload() int { return int(min(l.small.nc.MaxPayload(), MaxPayload)) }

// firstCause returns the error that caused the cancellation of the other connection.
func firstCause(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// conn returns the connection for messages of a size.
func (l *connPair) conn(size int) *hubConn {
	if size <= smallFrame {
		return l.small
	}
	return l.large
}

// begin runs f on a goroutine of the pair. It returns false if the pair has ended. f must end with
// the pair.
func (l *connPair) begin(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false // serve may already be waiting for work
	}
	l.work.Go(f)
	return true
}

// end ends both connections at once. The first reason stays.
func (l *connPair) end(reason error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = reason
	l.mu.Unlock()
	close(l.done)
	for _, h := range []*hubConn{l.small, l.large} {
		if h != nil {
			h.end(reason)
		}
	}
}

// reason returns the reason why the pair has ended, or nil.
func (l *connPair) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// serve pings the hub until one of the connections or ctx ends.
func (l *connPair) serve(ctx context.Context) {
	var wait sync.WaitGroup
	wait.Go(func() { l.small.ping(pingSmall) })
	wait.Go(func() { l.large.ping(pingLarge) })
	select {
	case <-ctx.Done():
		l.end(ctx.Err())
	case <-l.small.done:
		l.end(l.small.reason())
	case <-l.large.done:
		l.end(l.large.reason())
	case <-l.done:
	}
	wait.Wait()
	l.work.Wait()
}

// silent returns how long a sign of life from the hub has been overdue on either connection.
func (l *connPair) silent() time.Duration { return max(l.small.silent(), l.large.silent()) }

// patience returns how long a sign of life may be overdue before the connection is replaced.
func (l *connPair) patience() time.Duration { return max(leastPatience, 4*l.flow.least()) }
