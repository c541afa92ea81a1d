package api

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"achbridge/bridge/status"
)

// EventFollower asks the daemon for what happened since it asked last.
type EventFollower struct {
	Run   string
	after uint64
}

// Next waits for news, for as long as wait at most. Of a daemon that was started
// anew it takes everything.
func (f *EventFollower) Next(ctx context.Context, c *Client, wait time.Duration) (status.EventList, error) {
	query := url.Values{"after": {strconv.FormatUint(f.after, 10)}}
	if wait > 0 {
		query.Set("wait", wait.String())
	}
	var l status.EventList
	if _, err := c.Get(ctx, "/v1/events?"+query.Encode(), &l); err != nil {
		return l, err
	}
	if anew := f.Run != "" && f.Run != l.Run; anew {
		f.Run, f.after = l.Run, 0
		return f.Next(ctx, c, wait)
	}
	f.Run = l.Run
	if n := len(l.Events); n > 0 {
		f.after = l.Events[n-1].Seq
	}
	return l, nil
}

// A follower asks the daemon again after eventWait, and after askAgain when it does
// not answer.
const (
	EventWait = 5 * time.Second
	AskAgain  = time.Second
)

// Rest waits for d or the end of ctx.
func Rest(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// Until asks done every now and then, for as long as limit at most.
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
