package view

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"achbridge/bridge/layout"
)

// typeAgain is the interval at which a command that prints values checks whether the layout changed.
const typeAgain = 2 * time.Second

// Later holds a layout that replaced the channel's layout after the command started.
type Later struct{ layout atomic.Pointer[layout.Layout] }

// Take returns the layout that is new since the last call, or nil.
func (l *Later) Take() *layout.Layout { return l.layout.Swap(nil) }

// WithLater calls read, and meanwhile checks for a layout other than first, which may be nil. The previous
// layout stays if the channel loses its layout or the check fails. A file of --type is read once.
func (h Host) WithLater(file string, of View, first *layout.Layout, read func(*Later) error) error {
	later := &Later{}
	if file != "" {
		return read(later)
	}
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(of.Ctx)
	defer work.Wait()
	defer cancel()
	work.Go(func() { h.awaitLayout(ctx, of, first, later) })
	return read(later)
}

func (h Host) awaitLayout(ctx context.Context, of View, now *layout.Layout, later *Later) {
	h = h.quiet() // the first read already printed all notes
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
		later.layout.Store(l)
	}
}
