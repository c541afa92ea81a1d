package bridge

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"achbridge/bridge/mirror"
	"achbridge/bridge/status"
)

// Age watches the age of mirror name for a window, and waits that long. An error is
// fs.ErrNotExist when there is no such mirror, or ctx's.
func (n *Node) Age(ctx context.Context, name string, window time.Duration) (status.AgeReport, error) {
	var m *binding
	n.call(func() { m = n.mirrors[name] })
	if m == nil {
		return status.AgeReport{}, fmt.Errorf("mirror %s: %w", name, fs.ErrNotExist)
	}
	watch := m.WatchAge(n.now())
	pause(ctx, window)
	var at mirror.Reading
	n.call(func() { at = m.reading(n.now()) })
	return m.EndWatch(watch, n.now(), at), ctx.Err()
}

// Lately tells of all mirrors, in no order, what their ages were since it was called
// last: it is for one caller, who draws them over time. It takes a µs for each.
func (n *Node) Lately() []status.AgeLately {
	var list []status.AgeLately
	n.call(func() {
		for _, m := range n.mirrors {
			list = append(list, m.Lately(n.now(), m.reading(n.now())))
		}
	})
	return list
}

// clockAt reads the peer's clock.
func (l *link) clockAt(now time.Duration) mirror.Reading {
	r := mirror.Reading{Now: now}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Offset, r.Uncertainty, r.Known = l.clock.Offset(now)
	r.Suspended = l.clock.KnownAt()
	return r
}

func (l *link) readClock() mirror.Reading { return l.clockAt(l.n.now()) }
