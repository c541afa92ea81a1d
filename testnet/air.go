package testnet

import (
	"fmt"
	"hash/fnv"
	"time"
)

// Airs are the media that links share, by their names in Params.Air. All that
// happens on one air happens in the order of time, whichever link is asked. One
// goroutine at a time for all links that share it.
type Airs struct {
	seed   uint64
	byName map[string]*air
}

// NewAirs returns airs whose randomness depends on seed and their names alone.
func NewAirs(seed uint64) *Airs { return &Airs{seed: seed, byName: map[string]*air{}} }

// of returns the air of that name. Without a name it is one that no other link has,
// whose luck is that of the link's seed.
func (a *Airs) of(name string, link uint64) *air {
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

// air carries one transmission at a time.
type air struct {
	seed      uint64
	busyUntil time.Duration // until then
	byModel   map[*wifiModel]*conditions
	stations  []contender
	joinCount uint64 // stations that were ever here
}

// contender is a station on the air.
type contender interface {
	// next is when the station does something, if it will.
	next() (time.Duration, bool)
	// act does it.
	act(now time.Duration)
	// used is when it sent last.
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

// run lets everything happen that is due by now. Of two at the same instant the
// one goes first that has not sent for longer.
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
