package testnet

import (
	"fmt"
	"hash/fnv"
	"time"
)

// Airs are the radio media that links share, by their names in Params.Air. Events
// on one air are simulated in order of time, whichever link is asked. All links
// that share an Airs are for one goroutine at a time.
type Airs struct {
	seed   uint64
	byName map[string]*air
}

// NewAirs returns airs whose randomness depends only on seed and their names.
func NewAirs(seed uint64) *Airs { return &Airs{seed: seed, byName: map[string]*air{}} }

// get returns the air of that name. Without a name it returns an air that no other
// link has, whose randomness depends on the link's seed.
func (a *Airs) get(name string, link uint64) *air {
	if name == "" {
		return newAir(link)
	}
	if a.byName[name] == nil {
		h := fnv.New64a()
		fmt.Fprintf(h, "%d air %s", a.seed, name)
		a.byName[name] = newAir(h.Sum64())
	}
	return a.byName[name]
}

// air is a medium that carries one transmission at a time.
type air struct {
	seed      uint64
	busyUntil time.Duration // end of the current transmission
	byModel   map[*wifiModel]*conditions
	stations  []contender
	joinCount uint64 // number of stations that have joined
}

// contender is a station that competes for the air.
type contender interface {
	// next returns when the station does something next. ok is false if it does nothing.
	next() (time.Duration, bool)
	// act does what is due at now.
	act(now time.Duration)
	// lastSent returns when the station last sent.
	lastSent() time.Duration
}

func newAir(seed uint64) *air {
	return &air{seed: seed, byModel: map[*wifiModel]*conditions{}}
}

func (a *air) conditions(m *wifiModel) *conditions {
	if a.byModel[m] == nil {
		a.byModel[m] = m.conditions(a.seed)
	}
	return a.byModel[m]
}

// run simulates all events until now. Of two stations that act at the same instant,
// the one that has not sent for longer goes first.
func (a *air) run(now time.Duration) {
	for {
		var best contender
		first := now
		for _, s := range a.stations {
			at, ok := s.next()
			if ok && (at < first || at == first && (best == nil || s.lastSent() < best.lastSent())) {
				best, first = s, at
			}
		}
		if best == nil {
			return
		}
		best.act(first)
	}
}
