package hub

import (
	"context"
	"errors"
	"sync"
	"time"
)

// line is what connects this host with the hub: two connections. Frames up to smallFrame and control
// take the one, so that they do not wait behind larger frames on the other. It ends when one of them does.
type line struct {
	client       *Client
	flow         *flow
	small, large *half
	work         sync.WaitGroup // goroutines that end with the line
	ended        chan struct{}

	mu  sync.Mutex
	err error
}

const (
	// pingSmall and pingLarge are how often a connection is asked for a sign of life, of which
	// nothing is heard.
	pingSmall = 250 * time.Millisecond
	pingLarge = time.Second
	// leastPatience is how long a sign of life may at least take.
	leastPatience = 500 * time.Millisecond
)

// dialLine connects twice and signs in. All of it ends with ctx.
func (c *Client) dialLine(ctx context.Context, f *flow) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	l := &line{client: c, flow: f, ended: make(chan struct{})}
	var wait sync.WaitGroup
	halves, errs := [2]*half{}, [2]error{}
	for i := range halves {
		wait.Go(func() {
			if halves[i], errs[i] = c.dialHalf(ctx, l.flow, i == 0); errs[i] != nil {
				cancel()
			}
		})
	}
	wait.Wait()
	l.small, l.large = halves[0], halves[1]
	err := firstCause(errs[:])
	for _, h := range halves {
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

// maxPayload is how long a message may be, which the hub may change at any time.
func (l *line) maxPayload() int { return int(min(l.small.nc.MaxPayload(), MaxPayload)) }

// firstCause prefers what made the other end.
func firstCause(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// half is the connection that messages of a size take.
func (l *line) half(size int) *half {
	if size <= smallFrame {
		return l.small
	}
	return l.large
}

// begin runs f beside what there is, unless the line has ended. f has to end with the line.
func (l *line) begin(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false // serve may wait for the work already
	}
	l.work.Go(f)
	return true
}

// end ends both connections at once. The first reason stays.
func (l *line) end(reason error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = reason
	l.mu.Unlock()
	close(l.ended)
	for _, h := range []*half{l.small, l.large} {
		if h != nil {
			h.end(reason)
		}
	}
}

// reason is why the line has ended, or nil.
func (l *line) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// serve keeps the line alive until one of its connections ends, or ctx.
func (l *line) serve(ctx context.Context) {
	var wait sync.WaitGroup
	wait.Go(func() { l.small.ping(pingSmall) })
	wait.Go(func() { l.large.ping(pingLarge) })
	select {
	case <-ctx.Done():
		l.end(ctx.Err())
	case <-l.small.ended:
		l.end(l.small.reason())
	case <-l.large.ended:
		l.end(l.large.reason())
	case <-l.ended:
	}
	wait.Wait()
	l.work.Wait()
}

// silent is for how long the hub has owed a sign of life on one of the connections.
func (l *line) silent() time.Duration { return max(l.small.silent(), l.large.silent()) }

// patience is how long it may.
func (l *line) patience() time.Duration { return max(leastPatience, 4*l.flow.least()) }
