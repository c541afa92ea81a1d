package recording

import (
	"context"
	"maps"
	"slices"
	"time"

	"achbridge/bridge/status"
)

// askLedger reads the accounts of the daemon's mirrors once a second, if a daemon runs.
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

// account records the frames that did not get into the recorded mirrors.
func (r *recorder) account(list []status.Mirror) {
	for _, m := range list {
		r.originOf(m)
		r.retype(m)
		fates := map[string]uint64{}
		for _, drop := range m.Drops() {
			fates[drop.Name] = drop.Count
		}
		before, known := r.fates[m.Name]
		if was := r.accounts[m.Name]; m.Offered < was.Offered && m.Delivered < was.Delivered {
			before = nil // the daemon or the mirror began anew, and counts from nothing
		}
		r.accounts[m.Name] = m.Accounts
		if known && r.streams[m.Name] == nil {
			continue // a mirror that appears later counts from its beginning
		}
		r.fates[m.Name] = fates
		if !known {
			continue
		}
		for _, cause := range slices.Sorted(maps.Keys(fates)) {
			if fates[cause] > before[cause] {
				r.drop(r.now(), m.Name, cause, fates[cause]-before[cause])
			}
			fates[cause] = max(fates[cause], before[cause]) // the ledger may take a late frame back
		}
	}
}

func (r *recorder) originOf(m status.Mirror) {
	origin := m.Host + "/" + m.Channel
	if r.origins[m.Name] == origin {
		return
	}
	r.origins[m.Name] = origin
	if s := r.streams[m.Name]; s != nil && s.topic.Origin != origin {
		topic := *s.topic
		topic.Origin = origin
		if kind, known := r.typeFor(&topic, s.ch.Tag()); known {
			topic.Type = kind
		} else if !s.held {
			r.types[origin] = topic.Type // it has been asked for
		}
		s.topic = &topic
	}
}
