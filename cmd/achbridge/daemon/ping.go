package daemon

import (
	"context"
	"net/url"
	"time"

	"achbridge/bridge"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

// ping measures the round trip of one packet to a host.
func (c *control) ping(ctx context.Context, query url.Values) (r api.PingReply, err error) {
	p, err := c.node.Ping(ctx, query.Get("of"))
	if err != nil {
		return r, err
	}
	if !p.Lost {
		rtt := status.Ms(p.RTT)
		r.RTTms = &rtt
	}
	r.Why, r.Link = p.Why, p.Link
	return r, nil
}

// load measures the throughput of the link with a host, and compares it with the needs of the
// mirrors in this direction.
func (c *control) load(ctx context.Context, query url.Values) (r api.LoadReply, err error) {
	host, way := query.Get("of"), bridge.Down
	if query.Get("up") == "true" {
		way = bridge.Up
	}
	before := c.node.StatusNow()
	if r.Load, err = c.node.LoadTest(ctx, host, way); err != nil {
		return r, err
	}
	after := c.node.StatusNow()
	apart := time.Duration((after.UptimeS - before.UptimeS) * float64(time.Second))
	carries := ui.BitRate(r.Mbit * 1e6)
	demands := diagnose.DemandsFrom(before, after, host, apart, carries)
	if way == bridge.Up {
		before.Exports, after.Exports = to(host, before.Exports), to(host, after.Exports)
		demands = diagnose.DemandsOf(before, after, apart, carries)
	}
	r.Mirrors, r.Problems = len(demands), []string{}
	for _, d := range demands {
		r.NeededMbit += d.Mbit()
		if problem := d.Problem(); problem != "" {
			r.Problems = append(r.Problems, problem)
		}
	}
	return r, nil
}

// to returns the subscriptions of a host.
func to(host string, list []status.Subscription) (kept []status.Subscription) {
	for _, s := range list {
		if s.Peer == host {
			kept = append(kept, s)
		}
	}
	return kept
}
