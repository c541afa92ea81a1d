package bridge

import (
	"context"
	"errors"
	"sync"
	"time"
)

// tick is the interval at which a node checks for changes without an event: files damaged in
// place, hung broadcasts, refused mirrors.
const tick = 250 * time.Millisecond

// idleTick is the interval of ticks while the node is idle, see Node.isIdle.
const idleTick = time.Second

// loop runs functions one after the other on one goroutine, which owns the node's tables. When the
// functions change state, the loop reconciles, and then wakes the callers that wait for the
// outcome.
type loop struct {
	queue chan func()
	done  chan struct{}   // closed when no further functions will run
	work  sync.WaitGroup  // the goroutines that the node waits for
	ctx   context.Context // context of those goroutines

	// The fields below belong to the goroutine of run.
	isDue      bool             // reconcile must run
	restEnds   <-chan time.Time // when reconcile may run again; nil if it may now
	applied    []chan struct{}  // closed after the next reconcile
	changes    int              // number of functions and ticks of this turn that may have changed state
	nextChange chan struct{}    // closed after the next turn with changes; nil if no caller waits for it
}

func newLoop() loop { return loop{queue: make(chan func(), 64), done: make(chan struct{})} }

// run runs the posted functions until ctx ends. It calls check at every tick, and reconcile after changes, with pauses
// between two calls of reconcile (restShare). The next tick is after idleTick if isIdle returns true.
func (l *loop) run(ctx context.Context, isIdle func() bool, check, reconcile func()) {
	interval := tick
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case f := <-l.queue:
			l.changes++
			f()
			l.drain()
		case <-ticker.C:
			l.changes++
			check()
		case <-l.restEnds:
			l.restEnds = nil
		case <-ctx.Done():
		}
		if l.isDue && l.restEnds == nil {
			l.changes++
			l.reconcile(reconcile)
		}
		l.endTurn()
		wanted := tick
		if isIdle() {
			wanted = idleTick
		}
		if wanted != interval {
			interval = wanted
			ticker.Reset(interval)
		}
	}
}

// drain runs the functions that wait in the queue, so that one reconcile serves many changes.
// Functions that arrive meanwhile stay in the queue, since otherwise a steady stream of them would
// block the ticks.
func (l *loop) drain() {
	for range len(l.queue) {
		l.changes++
		(<-l.queue)()
	}
}

func (l *loop) reconcile(f func()) {
	l.isDue = false
	began := time.Now()
	f()
	for _, done := range l.applied {
		close(done)
	}
	l.applied = nil
	if pause := rest(time.Since(began)); pause > 0 {
		l.restEnds = time.After(pause)
	}
}

// endTurn wakes the callers that wait for a change, if there may have been one.
func (l *loop) endTurn() {
	if l.changes > 0 && l.nextChange != nil {
		close(l.nextChange)
		l.nextChange = nil
	}
	l.changes = 0
}

// changed makes reconcile run at the end of the turn. Call it after a change that reconcile
// depends on.
func (l *loop) changed() { l.isDue = true }

// post queues f for the loop's goroutine. It blocks while the queue is full.
func (l *loop) post(f func()) {
	select {
	case l.queue <- f:
	case <-l.done:
	}
}

// tryPost queues f if the queue has room; otherwise it does nothing.
func (l *loop) tryPost(f func()) {
	select {
	case l.queue <- f:
	default:
	}
}

// call runs f on the loop's goroutine and waits until it has run. It returns false if the loop has
// ended and f did not run.
func (l *loop) call(f func()) bool {
	done := make(chan struct{})
	l.post(func() { f(); close(done) })
	select {
	case <-done:
		return true
	case <-l.done:
		return false
	}
}

// ask is call for an f that changes nothing, so that it does not wake callers that wait for a
// change.
func (l *loop) ask(f func()) bool {
	return l.call(func() { f(); l.changes-- })
}

var errEnded = errors.New("the daemon has ended")

// change runs f on the loop's goroutine and waits until f has run. Unless f fails, it also waits
// for the next reconcile. It does not wait for peers. The error is f's, or errEnded.
func (l *loop) change(f func() error) (err error) {
	done := make(chan struct{})
	if !l.call(func() {
		if err = f(); err != nil {
			close(done)
			return
		}
		l.changed()
		l.applied = append(l.applied, done)
	}) {
		return errEnded
	}
	select {
	case <-done:
		return err
	case <-l.done:
		return errEnded
	}
}

// await calls done at once, and again after each turn that may have changed state. It returns when
// done returns true, or when ctx or the loop ends.
func (l *loop) await(ctx context.Context, done func() bool) {
	for {
		var changed <-chan struct{}
		l.ask(func() {
			if l.nextChange == nil {
				l.nextChange = make(chan struct{})
			}
			changed = l.nextChange
		})
		if done() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-l.done:
			return
		}
	}
}

// restShare is the ratio of the pause after a reconcile to the duration of the reconcile. It
// bounds the CPU time that catalogs of peers can make the loop use.
const restShare = 4

// rest returns the pause after work that took the given time.
func rest(took time.Duration) time.Duration { return restShare * took }

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
