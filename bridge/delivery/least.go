package delivery

import "time"

// least keeps the minimum of the times noted in the last ten to twenty seconds. It divides time into
// slots of length leastSlot.
type least struct {
	now, former time.Duration // minimum of the current slot and of the previous slot; 0 means no samples
	slot        time.Duration // start of the current slot
}

func (l *least) note(now, took time.Duration) {
	if now-l.slot >= leastSlot {
		l.former, l.now, l.slot = l.now, 0, now
	}
	if took = max(took, 1); l.now == 0 || took < l.now {
		l.now = took
	}
}

// value returns the minimum, or 0 before the first note.
func (l *least) value() time.Duration {
	if l.former == 0 || l.now != 0 && l.now < l.former {
		return l.now
	}
	return l.former
}

func (l *least) longer(by time.Duration) {
	for _, t := range []*time.Duration{&l.now, &l.former} {
		if *t != 0 {
			*t += by
		}
	}
}

// leastSlot is the length of a slot.
const leastSlot = 10 * time.Second
