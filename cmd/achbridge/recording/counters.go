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
	lastDrops     map[string]map[string]uint64    // last counts of the ledger, by mirror and cause
	frameCounters map[string]ledger.FrameCounters // frame counters, by mirror
	origins       map[string]string               // HOST/CHANNEL, by mirror
	stamps        map[string]Stamps               // time stamps in the frames, by mirror
	drops         map[[2]string]uint64            // in all, by channel and cause
	answers       chan []status.Mirror
}

// readMirrors reads the accounts of the daemon's mirrors once a second, if a daemon runs.
func (r *recorder) readMirrors(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
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

// recordDrops records the frames that did not get into the recorded mirrors.
func (r *recorder) recordDrops(list []status.Mirror) {
	if r.withAges {
		r.recordAges(list)
	}
	for _, m := range list {
		r.originOf(m)
		r.retype(m)
		r.stampsOfMirror(m)
		drops := map[string]uint64{}
		for _, drop := range m.Drops() {
			drops[drop.Name] = drop.Count
		}
		before, known := r.mirrors.lastDrops[m.Name]
		if was := r.mirrors.frameCounters[m.Name]; m.Offered < was.Offered && m.Delivered < was.Delivered {
			before = nil // the daemon or the mirror was restarted, and counts from 0
		}
		r.mirrors.frameCounters[m.Name] = m.FrameCounters
		if known && r.streams[m.Name] == nil {
			continue // a mirror that appears later counts from its beginning
		}
		r.mirrors.lastDrops[m.Name] = drops
		if !known {
			continue
		}
		for _, cause := range slices.Sorted(maps.Keys(drops)) {
			if drops[cause] > before[cause] {
				r.drop(r.now(), m.Name, cause, drops[cause]-before[cause])
			}
			drops[cause] = max(drops[cause], before[cause]) // a count may shrink if a lost frame arrives late
		}
	}
}

// recordAges records the ages of the recorded mirrors.
func (r *recorder) recordAges(list []status.Mirror) {
	now := r.now()
	for _, m := range list {
		if r.streams[m.Name] != nil {
			r.text(agesTopic, now, Age{m.Name, m.Host + "/" + m.Channel, m.AgeMs, m.State})
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
		s.changeTopic(func(t *Topic) {
			t.Origin = origin
			if kind, known := r.typeFor(t, s.ch.Tag()); known {
				t.Type = kind
			} else if !s.awaitsType {
				r.types.byName[origin] = t.Type // it has been asked for
			}
		})
	}
}
