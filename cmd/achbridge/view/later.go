package view

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"achbridge/bridge/layout"
)

// typeAgain is how often a verb that shows values looks whether they have another layout by now.
const typeAgain = 2 * time.Second

// Later is the layout that a channel has got since a verb began, if it has another one.
type Later struct{ found atomic.Pointer[layout.Layout] }

// Take returns the layout that was found since the last call, or nil if there is none.
func (l *Later) Take() *layout.Layout { return l.found.Swap(nil) }

// WithLater calls read, and meanwhile checks for a layout that replaces first, which may be nil. If the
// origin has no layout or does not answer, the previous one stays. A file of --type is read once.
func (h Host) WithLater(file string, of View, first *layout.Layout, read func(*Later) error) error {
	later := &Later{}
	if file != "" {
		return read(later)
	}
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(of.Ctx)
	defer work.Wait()
	defer cancel()
	work.Go(func() { h.lookForLater(ctx, of, first, later) })
	return read(later)
}

func (h Host) lookForLater(ctx context.Context, of View, now *layout.Layout, later *Later) {
	h = h.quiet() // what is wrong was said at the beginning
	of.Ctx = ctx
	tick := time.NewTicker(typeAgain)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		l, _, err := h.LayoutOf("", of)
		if err != nil || l == nil || now != nil && l.Same(now) {
			continue
		}
		now = l
		later.found.Store(l)
	}
}
