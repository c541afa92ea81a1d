package operator

import (
	"maps"
	"slices"
	"strings"
	"time"

	"achbridge/bridge/unit"
)

// Table has the locks of a host's channels.
type Table struct {
	boot       [16]byte        // boot id of this host
	generation uint64          // generation of the last change of a holder
	locks      map[string]Lock // locks that are held, by channel
}

// Change is the change of one lock. It has no effect before Table.With.
type Change struct {
	Before, After Lock
	Why           string // for people, as in "pc took it"
}

// IsHandover reports whether the change ends the right of the former holder.
func (c Change) IsHandover() bool { return c.Before.Generation != c.After.Generation }

// Get returns the lock of a channel.
func (t Table) Get(channel string) Lock { return t.locks[channel] }

// IsHolder reports whether a machine holds a lock.
func (t Table) IsHolder(h Holder) bool {
	for _, l := range t.locks {
		if l.Holder == h {
			return true
		}
	}
	return false
}

// List returns the locks that are held, by channel.
func (t Table) List() []Lock {
	return slices.SortedFunc(maps.Values(t.locks), func(a, b Lock) int { return strings.Compare(a.Channel, b.Channel) })
}

// Request is the request of a host to take a lock.
type Request struct {
	Channel string
	By      Holder
	For     time.Duration // how long to hold the lock; 0 means without end
	Force   bool          // take the lock from another holder
}

// Take returns the change that gives a lock to the host that requests it. A holder that takes the lock again only changes
// its end. The error is a HeldError if another host holds the lock and the request is not forced. Call Expire before.
func (t Table) Take(now time.Duration, r Request) (Change, error) {
	held, isHeld := t.locks[r.Channel]
	next := Lock{Channel: r.Channel, Holder: r.By, Generation: t.generation + 1, TakenAt: now, receivedAt: now}
	why := r.By.Host + " took it"
	switch {
	case !isHeld && len(t.locks) >= MaxLocks:
		return Change{}, errFull
	case !isHeld:
	case held.Holder == r.By:
		next.Generation, next.TakenAt = held.Generation, held.TakenAt
		why += " again"
	case !r.Force:
		return Change{}, &HeldError{held}
	default:
		why += " by force from " + held.Holder.Host
	}
	if r.For > 0 {
		next.End = now + r.For
		why += " for " + unit.Time(r.For)
	}
	transitions.Move(&next.phase, Held)
	return Change{held, next, why}, nil
}

// Release returns the change that ends the lock of a holder. If to has a host, it gets the lock until the same end.
// Call Expire before.
func (t Table) Release(now time.Duration, channel string, by, to Holder) (Change, error) {
	held, isHeld := t.locks[channel]
	switch {
	case !isHeld:
		return Change{}, ErrNobody
	case held.Holder != by:
		return Change{}, &HeldError{held}
	case to.Host == "":
		return Change{held, Lock{Channel: channel}, by.Host + " released it"}, nil
	case to == by:
		return Change{held, held, by.Host + " keeps it"}, nil
	}
	next := Lock{Channel: channel, Holder: to, Generation: t.generation + 1, TakenAt: now, End: held.End, receivedAt: now}
	transitions.Move(&next.phase, Held)
	return Change{held, next, by.Host + " gave it to " + to.Host}, nil
}

// Received records that the last packet of a machine arrived at the time at. A lock in grace is held again.
func (t Table) Received(at time.Duration, by Holder) {
	for channel, l := range t.locks {
		if l.Holder == by && at > l.receivedAt {
			l.receivedAt = at
			transitions.Move(&l.phase, Held)
			t.locks[channel] = l
		}
	}
}

// Expire returns the changes that end the locks whose end or grace is over at now. grace returns a lock's grace, and 0
// if the rules do not allow its holder any more. Expire also moves locks into grace.
func (t Table) Expire(now time.Duration, grace func(Lock) time.Duration) (list []Change) {
	for _, l := range t.List() {
		silent, most := now-l.receivedAt, grace(l)
		why := ""
		switch {
		case most == 0:
			why = l.Holder.Host + " lost it: the accept rules do not let it hold the lock any more"
		case l.End != 0 && now >= l.End:
			why = l.Holder.Host + " lost it: its time is over"
		case silent >= most:
			why = l.Holder.Host + " lost it: nothing came from it for " + unit.Time(silent.Round(10*time.Millisecond))
		}
		if why != "" {
			list = append(list, Change{l, Lock{Channel: l.Channel}, why})
			continue
		}
		if silent >= Quiet {
			transitions.Move(&l.phase, InGrace)
			t.locks[l.Channel] = l
		}
	}
	return list
}

// With returns the table after a change. t keeps its locks.
func (t Table) With(c Change) Table {
	next := Table{boot: t.boot, generation: max(t.generation, c.After.Generation), locks: maps.Clone(t.locks)}
	if c.After.phase == Nobody {
		delete(next.locks, c.After.Channel)
	} else {
		next.locks[c.After.Channel] = c.After
	}
	return next
}
