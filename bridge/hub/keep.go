package hub

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// dialEvery is the interval of attempts while earlier ones are unanswered. An attempt that
	// began while the path was cut waits for TCP's doubled retransmission timer.
	dialEvery = 300 * time.Millisecond
	// dialSlowly is the interval of attempts once the client has tried for dialFast. It is also the
	// pause after an answer to an attempt: a hub to which many hosts reconnect at once is slow.
	dialSlowly = time.Second
	dialFast   = 15 * time.Second
	// refusedWait is the delay before the next attempt after the hub refused the credentials.
	refusedWait = 5 * time.Second
	// maxAttempts limits the concurrent attempts.
	maxAttempts = 16
	// heartbeat is the interval at which the silence of the connections is checked.
	heartbeat = 50 * time.Millisecond
	// goodbye limits the time to leave.
	goodbye = 200 * time.Millisecond
)

var errReplaced = errors.New("another connection answered first")

// Run keeps this host connected to the hub until ctx ends. It tries again after every failure.
func (c *Client) Run(ctx context.Context) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() { c.presence.run(ctx) })
	defer c.sessions.endAll(nil)
	var l *connPair
	for ctx.Err() == nil {
		if l == nil {
			if l = c.dialFirst(ctx); l == nil {
				break
			}
			c.log.Info("connected to the hub", "hub", c.credentials.Hub)
		}
		l = c.hold(ctx, l)
	}
	c.become(nil, ctx.Err())
	return ctx.Err()
}

// hold uses l until it ends. It returns the pair that replaced l, or nil.
func (c *Client) hold(ctx context.Context, l *connPair) (next *connPair) {
	lineCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	if err := c.take(l); err != nil {
		l.end(err)
	}
	wait.Go(func() { l.serve(lineCtx) })
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			c.leave(l)
			return nil
		case <-l.done:
			c.lost(l.reason())
			return nil
		case <-tick.C:
		}
		if !c.isSilent(l) {
			continue
		}
		if next = c.dialBeside(ctx, l); next != nil {
			c.log.Info("hub did not answer, reconnected", "hub", c.credentials.Hub, "silent", l.silent())
			l.end(errReplaced)
			c.sessions.endAll(errNotConnected(errReplaced))
			return next
		}
		c.noteProblem(nil)
	}
}

// take makes l the connection and subscribes to the messages for this host.
func (c *Client) take(l *connPair) error {
	if _, err := l.small.subscribe(controlTo(c.credentials.Host), c.sessions.take); err != nil {
		return err
	}
	if _, err := l.small.subscribe(allHere, c.presence.take); err != nil {
		return err
	}
	c.become(l, nil)
	c.presence.connected(l)
	return nil
}

// lost records that the connection has ended.
func (c *Client) lost(reason error) {
	reason = explain(c.credentials, c.credentials.Hub, reason)
	c.become(nil, reason)
	c.sessions.endAll(errNotConnected(reason))
	c.log.Warn("connection to the hub lost", "hub", c.credentials.Hub, "err", reason)
}

// leave sends the goodbye messages, for at most the time goodbye.
func (c *Client) leave(l *connPair) {
	defer time.AfterFunc(goodbye, func() { l.end(context.Canceled) }).Stop() // a hub that accepts no data must not delay the end
	c.sessions.endAll(nil)
	c.presence.say(l, here{Gone: true})
	_ = l.small.nc.FlushTimeout(goodbye)
}

// dialBeside dials while l is silent. It returns nil when l is no longer silent, or when l ends.
func (c *Client) dialBeside(ctx context.Context, l *connPair) *connPair {
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	wait.Go(func() {
		defer cancel()
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.done:
				return
			case <-tick.C:
			}
			if !c.isSilent(l) {
				return
			}
		}
	})
	return c.dialFirst(ctx)
}

// attempt is the result of an attempt to connect.
type attempt struct {
	flow *flow
	pair *connPair
	err  error
}

// dialFirst returns the first pair of connections to which the hub answers, or nil when ctx ends. Unanswered attempts
// continue while others begin.
func (c *Client) dialFirst(ctx context.Context) *connPair {
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan attempt, maxAttempts)
	pending := map[*flow]bool{}
	defer func() {
		cancel()
		for range pending {
			if late := <-results; late.pair != nil {
				late.pair.end(errReplaced)
			}
		}
	}()
	begun := time.Now()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
			if len(pending) < maxAttempts && !anyReceived(pending) {
				f := newFlow()
				pending[f] = true
				go func() {
					l, err := c.dialPair(ctx, f)
					results <- attempt{f, l, err}
				}()
			}
			next.Reset(pause(time.Since(begun), nil))
		case a := <-results:
			delete(pending, a.flow)
			if a.err == nil {
				return a.pair
			}
			c.noteProblem(a.err)
			next.Reset(pause(time.Since(begun), a.err))
		}
	}
}

// anyReceived reports whether the hub has recently answered one of these attempts.
func anyReceived(attempts map[*flow]bool) bool {
	for f := range attempts {
		if f.sinceReceived() < dialSlowly {
			return true
		}
	}
	return false
}

// pause returns the delay before the next attempt. It is random, so that hosts that lost the hub
// together do not reconnect together.
func pause(trying time.Duration, err error) time.Duration {
	wait := dialEvery
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ErrCertificate):
		wait = refusedWait
	case trying > dialFast:
		wait = dialSlowly
	}
	return wait*3/4 + rand.N(wait/2)
}
