package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"achbridge/bridge/status"
)

// mostEventWait limits how long a request waits for events.
const mostEventWait = time.Minute

// events returns the events after a given one. If there is none, it waits for the next one.
func (c *control) events(ctx context.Context, query url.Values) (status.EventList, error) {
	after, err := strconv.ParseUint(cmp.Or(query.Get("after"), "0"), 10, 64)
	if err != nil {
		return status.EventList{}, badRequest{fmt.Errorf("after %q: want the number of an event", query.Get("after"))}
	}
	wait, err := time.ParseDuration(cmp.Or(query.Get("wait"), "0s"))
	if err != nil || wait < 0 || wait > mostEventWait {
		return status.EventList{}, badRequest{fmt.Errorf("wait %q: want a time up to %v, as in 5s", query.Get("wait"), mostEventWait)}
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return c.node.Events(ctx, after)
}
