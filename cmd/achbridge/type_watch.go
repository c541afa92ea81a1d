package main

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/ui"
)

// typeAgain is how often a verb that shows values looks whether they have another layout by now.
const typeAgain = 2 * time.Second

// laterLayout is the layout that a channel has got since a verb began, if it has another one.
type laterLayout struct{ found atomic.Pointer[layout.Layout] }

// take returns the layout that is new since the last call; nil: none is.
func (l *laterLayout) take() *layout.Layout { return l.found.Swap(nil) }

// withLater calls read, and looks meanwhile for a later layout than first, which may be nil. If there
// is none any more, or nobody can tell, the one before stays. A file of --type is read once.
func (a *app) withLater(v *valueFlags, of view, first *layout.Layout, read func(*laterLayout) error) error {
	later := &laterLayout{}
	if v.file != "" {
		return read(later)
	}
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(of.ctx)
	defer work.Wait()
	defer cancel()
	work.Go(func() { a.lookForLater(ctx, of, first, later) })
	return read(later)
}

func (a *app) lookForLater(ctx context.Context, of view, now *layout.Layout, later *laterLayout) {
	quiet := *a // what is wrong was said at the beginning
	quiet.ui = &ui.Terminal{Out: io.Discard, Err: io.Discard}
	of.ctx = ctx
	tick := time.NewTicker(typeAgain)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		l, _, err := quiet.layoutOf(&valueFlags{}, of)
		if err != nil || l == nil || now != nil && l.Same(now) {
			continue
		}
		now = l
		later.found.Store(l)
	}
}

// noteLater says that a channel has another layout by now.
func (a *app) noteLater(of string, l *layout.Layout) {
	a.ui.Note("%s: its frames have another type from now on: %s, %d bytes", of, l.Name, l.Size)
}
