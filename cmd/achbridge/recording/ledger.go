package recording

import (
	"context"
	"maps"
	"slices"
	"time"

	"achbridge/bridge"
)

// askLedger reads the daemon's account of its mirrors once a second, if there is one.
func (r *recorder) askLedger(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if list, err := r.Mirrors(ctx); err == nil {
			select {
			case r.ledger <- list:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// account notes what did not get into the mirrors that are recorded.
func (r *recorder) account(list []bridge.MirrorStatus) {
	for _, m := range list {
		r.originOf(m)
		fates := map[string]uint64{
			"superseded": m.Superseded, "rate_limited": m.RateLimited, "expired": m.Expired, "lost": m.Lost,
			"late": m.Late, "refused": m.Refused, "overflow": m.Overflow,
		}
		before, known := r.fates[m.Name]
		if known && r.streams[m.Name] == nil {
			continue // it counts from the beginning when it appears
		}
		r.fates[m.Name] = fates
		if !known {
			continue
		}
		for _, cause := range slices.Sorted(maps.Keys(fates)) {
			if fates[cause] > before[cause] {
				r.drop(r.now(), m.Name, cause, fates[cause]-before[cause])
			}
			fates[cause] = max(fates[cause], before[cause]) // a frame that was late may not be late any more
		}
	}
}

func (r *recorder) originOf(m bridge.MirrorStatus) {
	origin := m.Host + "/" + m.Channel
	if r.origins[m.Name] == origin {
		return
	}
	r.origins[m.Name] = origin
	if s := r.streams[m.Name]; s != nil && s.topic.Origin != origin {
		topic := *s.topic
		topic.Origin = origin
		s.topic = &topic
	}
}
