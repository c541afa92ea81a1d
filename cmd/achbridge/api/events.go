package api

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"achbridge/bridge/status"
)

// EventFollower reads the daemon's events; each call of Next returns newer ones.
type EventFollower struct {
	Run   string
	after uint64
}

// Next returns the events since the last call. It waits up to wait for an event. If the daemon has restarted since, Next
// returns all events of the new daemon.
func (f *EventFollower) Next(ctx context.Context, c *Client, wait time.Duration) (status.EventList, error) {
	query := url.Values{"after": {strconv.FormatUint(f.after, 10)}}
	if wait > 0 {
		query.Set("wait", wait.String())
	}
	var l status.EventList
	if _, err := c.Get(ctx, "/v1/events?"+query.Encode(), &l); err != nil {
		return l, err
	}
	if restarted := f.Run != "" && f.Run != l.Run; restarted {
		f.Run, f.after = l.Run, 0
		return f.Next(ctx, c, wait)
	}
	f.Run = l.Run
	if n := len(l.Events); n > 0 {
		f.after = l.Events[n-1].Seq
	}
	return l, nil
}

// EventWait is how long a request for events usually waits for one. AskAgain is the pause before the next request after
// the daemon did not answer.
const (
	EventWait = 5 * time.Second
	AskAgain  = time.Second
)

// Rest waits until d has passed or ctx ends.
func Rest(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// Answers waits until the daemon answers. Its error is that ctx has ended.
func (c *Client) Answers(ctx context.Context) error {
	const pause = 20 * time.Millisecond
	for ctx.Err() == nil {
		var setup DaemonSetup
		if _, err := c.Get(ctx, "/v1/setup", &setup); err == nil {
			return nil
		}
		Rest(ctx, pause)
	}
	return ctx.Err()
}

// Until calls done every 20 ms until it returns true, limit has passed, or ctx ends.
func Until(ctx context.Context, limit time.Duration, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
