package recording

import (
	"context"
	"maps"
	"slices"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
)

// mirrors holds the daemon's last report of its mirrors. It belongs to the goroutine that reads.
type mirrors struct {
	fates    map[string]map[string]uint64    // last counts of the ledger, by mirror and cause
	accounts map[string]ledger.FrameCounters // frame counters, by mirror
	origins  map[string]string               // HOST/CHANNEL, by mirror
	drops    map[[2]string]uint64            // in all, by channel and cause
	answers  chan []status.Mirror
}

// askLedger reads the accounts of the daemon's mirrors once a second, if a daemon runs.
func (r *recorder) askLedger(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if list, err := r.Mirrors(ctx); err == nil {
			select {
			case r.mirrors.answers <- list:
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
		before, known := r.mirrors.fates[m.Name]
		if was := r.mirrors.accounts[m.Name]; m.Offered < was.Offered && m.Delivered < was.Delivered {
			before = nil // the daemon or the mirror was restarted, and counts from 0
		}
		r.mirrors.accounts[m.Name] = m.FrameCounters
		if known && r.streams[m.Name] == nil {
			continue // a mirror that appears later counts from its beginning
		}
		r.mirrors.fates[m.Name] = fates
		if !known {
			continue
		}
		for _, cause := range slices.Sorted(maps.Keys(fates)) {
			if fates[cause] > before[cause] {
				r.drop(r.now(), m.Name, cause, fates[cause]-before[cause])
			}
			fates[cause] = max(fates[cause], before[cause]) // a count may shrink if a lost frame arrives late
		}
	}
}

func (r *recorder) originOf(m status.Mirror) {
	origin := m.Host + "/" + m.Channel
	if r.mirrors.origins[m.Name] == origin {
		return
	}
	r.mirrors.origins[m.Name] = origin
	if s := r.streams[m.Name]; s != nil && s.topic.Origin != origin {
		topic := *s.topic
		topic.Origin = origin
		if kind, known := r.typeFor(&topic, s.ch.Tag()); known {
			topic.Type = kind
		} else if !s.held {
			r.types.byName[origin] = topic.Type // it has been asked for
		}
		s.topic = &topic
	}
}
