package mux

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/logline"
	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// runner is the goroutine of a mux.
type runner struct {
	mux      *Mux
	cfg      Config
	rule     rule.Mux // the zero rule before the first turn
	inputs   []*input
	selector selector
	output   output
	lock     *os.File // the lock file; nil while another process has the lock

	mustCheckFiles bool
	retryAt        time.Duration // no turn before this time, since the output cannot be used
	suspended      time.Duration // total time in suspend, at the last turn
	winner         int

	changes logline.Limit // limits events about the winner
	future  logline.Limit // limits events about stamps in the future
}

const (
	busyRetry   = time.Millisecond       // until the next turn while the lock of the output or of an input is taken
	failedRetry = 100 * time.Millisecond // until the next turn after another error
	longWait    = time.Hour
	eventPeriod = time.Second // least time between events about future stamps, or about the winner after eventBurst events
	eventBurst  = 10
)

func newRunner(m *Mux) *runner {
	return &runner{
		mux: m, cfg: m.cfg, output: output{mirror: m.output, cfg: m.cfg}, suspended: m.cfg.Monotonic.Suspended(), winner: none,
		changes: logline.Limit{Burst: eventBurst, Period: eventPeriod}, future: logline.Limit{Period: eventPeriod},
	}
}

// run merges the inputs until ctx ends.
func (r *runner) run(ctx context.Context) {
	defer r.end()
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-r.mux.wakes:
		case <-t.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		t.Reset(r.turn())
	}
}

func (r *runner) end() {
	for _, in := range r.inputs {
		in.close()
	}
	if r.lock != nil {
		r.lock.Close()
	}
}

// turn reads new frames, decides which input wins, and puts a frame. It returns the time until the next turn.
func (r *runner) turn() time.Duration {
	r.takeRequest()
	if wait := r.retryAt - r.cfg.Clock.Now(); wait > 0 {
		return wait
	}
	if r.mustCheckFiles || !r.output.isOpen() {
		if err := r.checkFiles(); err != nil {
			r.refuse(err)
			r.retryAt = r.cfg.Clock.Now() + failedRetry
			return failedRetry
		}
		r.mustCheckFiles = false
	}
	isBusy := r.readInputs()
	now := r.cfg.Clock.Now()
	d := r.selector.decide(now)
	wait := longWait
	if d.next != 0 {
		wait = max(0, d.next-now)
	}
	wait = min(wait, r.put(d, now))
	if isBusy {
		wait = min(wait, busyRetry)
	}
	return min(wait, r.show(d, now))
}

// takeRequest applies the rule and the facts that the node has set.
func (r *runner) takeRequest() {
	m := r.mux
	m.mu.Lock()
	to, facts := m.rule, m.facts
	r.mustCheckFiles = r.mustCheckFiles || m.isFileCheckDue
	m.isFileCheckDue = false
	m.mu.Unlock()
	if !to.Equal(r.rule) {
		r.setRule(to)
	}
	for i, in := range r.inputs {
		if facts[i].Problem != "" || facts[i].Generation != in.Generation {
			r.selector.reset(i)
		}
		in.InputFacts = facts[i]
	}
}

// setRule replaces the rule. Inputs that both rules have stay open and live.
func (r *runner) setRule(to rule.Mux) {
	former := r.inputs
	selector := newSelector(len(to.Inputs), to.Hold, to.CatchUp)
	r.inputs = nil
	for i, like := range to.Inputs {
		was := slices.IndexFunc(former, func(in *input) bool { return in != nil && in.MuxInput == like })
		if was < 0 {
			r.inputs = append(r.inputs, &input{MuxInput: like, mayBeOld: true})
			continue
		}
		r.inputs = append(r.inputs, former[was])
		selector.inputs[i] = r.selector.inputs[was]
		former[was] = nil
	}
	for _, in := range former {
		if in != nil {
			in.close()
		}
	}
	if to.Meta != r.rule.Meta {
		r.output.feed = nil // reopen it with or without its metadata channel
	}
	r.rule, r.selector = to, *selector
	r.selector.needsSafe = !r.output.endsWith(r.safeFrame())
}

// safeFrame returns the safe frame with the shifter for its time.
func (r *runner) safeFrame() safeFrame {
	f := safeFrame{bytes: []byte(r.rule.Safe.Frame)}
	for _, in := range r.inputs {
		if in.Shifter != nil {
			f.shifter = in.Shifter
			break
		}
	}
	return f
}

func (r *runner) hasSafe() bool { return r.rule.Safe.File != "" }

// checkFiles locks the output, and opens or repairs the channels.
func (r *runner) checkFiles() (err error) {
	if r.lock == nil {
		if r.lock, err = lockFile(r.cfg.Dir, r.rule.Output); err != nil {
			return err
		}
	}
	for _, in := range r.inputs {
		in.open(&r.cfg, r.mux.wake)
	}
	isNew, err := r.output.check(r.rule, r.inputs)
	if isNew {
		r.selector.needsSafe = !r.output.endsWith(r.safeFrame())
		r.output.mirror.ShowInput(uint8(r.winner + 1))
	}
	return err
}

// readInputs reads the new frames of all inputs. isBusy reports that a frame could not be read yet.
func (r *runner) readInputs() (isBusy bool) {
	total := r.cfg.Monotonic.Suspended()
	isSuspended := clock.Slept(r.suspended, total)
	r.suspended = total
	for i, in := range r.inputs {
		until, ok := in.read(&r.cfg)
		now := r.cfg.Clock.Now()
		switch {
		case in.isBusy:
			isBusy = true
			continue
		case ok && in.mayBeOld:
			r.selector.found(i, now, until)
		case ok:
			r.selector.frame(i, now, until)
		}
		if in.isChecked {
			in.mayBeOld = false
		}
	}
	if isSuspended {
		r.selector.suspended()
	}
	return isBusy
}

// put puts the frame of a decision. It returns the time until the next try.
func (r *runner) put(d decision, now time.Duration) time.Duration {
	p := mirror.Output{Arrival: mirror.Arrival{At: mirror.Reading{Now: now}}, Input: uint8(d.winner + 1)}
	switch {
	case d.put != none:
		in := r.inputs[d.put]
		p.Data, p.Captured, p.Until = in.frame, in.captured, r.selector.inputs[d.put].until
		p.At.Known, p.At.Uncertainty = in.captured != 0, in.captureError
	case d.safe && r.hasSafe():
		p.Data, p.IsSafe = r.safeFrame().at(r.cfg.Monotonic.Of(now)), true
	default:
		return longWait
	}
	switch err := r.output.put(p); {
	case mirror.IsBusy(err):
		return busyRetry
	case err != nil && !p.IsSafe:
		return min(failedRetry, max(0, p.Until-r.cfg.Clock.Now())) // the status of the output has the error
	case err != nil:
		return failedRetry
	}
	if d.put != none {
		r.inputs[d.put].put++
	}
	r.selector.sent(d)
	return longWait
}

// refuse records why the mux cannot run.
func (r *runner) refuse(err error) {
	if r.output.mirror.Refuse(mirror.CauseOf(err), err.Error()) {
		r.cfg.Events.Record(slog.LevelWarn, "mux cannot run", r.event(status.EventRefused, err.Error()), "err", err)
	}
	r.show(decision{winner: none, put: none}, r.cfg.Clock.Now())
}

func (r *runner) event(kind status.EventKind, text string) status.Event {
	return status.Event{Kind: kind, Channel: r.rule.Output, Mirror: r.rule.Output, Text: text}
}

// show updates the status, the metadata channel and the events. It returns the time until the next event may be due.
func (r *runner) show(d decision, now time.Duration) time.Duration {
	if d.winner != r.winner {
		r.winner = d.winner
		r.output.mirror.ShowInput(uint8(d.winner + 1))
		r.changes.Add()
	}
	winner := ""
	if d.winner != none {
		winner = r.rule.Inputs[d.winner].Channel
	}
	r.mux.mu.Lock()
	s := &r.mux.report
	if s.Winner != winner {
		s.Winner, r.mux.since = winner, now
		s.Changes++
	}
	s.Inputs = s.Inputs[:0]
	for i, in := range r.inputs {
		s.Inputs = append(s.Inputs, status.MuxInput{
			Channel: in.Channel, State: r.selector.inputs[i].phase.String(), Reason: in.reason, Frames: in.frames, Put: in.put, Refused: in.refused,
		})
	}
	r.mux.mu.Unlock()
	return r.recordEvents(winner, now)
}

// recordEvents records events about the winner and about stamps in the future.
func (r *runner) recordEvents(winner string, now time.Duration) time.Duration {
	if changes, ok := r.changes.Due(now); ok {
		text := "no input is live"
		switch {
		case winner != "":
			text = winner + " wins"
		case r.hasSafe() && !r.selector.needsSafe:
			text += "; the safe frame was put"
		}
		if changes > 1 {
			text += fmt.Sprintf(", after %d changes", changes)
		}
		e := r.event(status.EventMuxChanged, text)
		e.Count = changes
		r.cfg.Events.Record(slog.LevelInfo, "mux input changed", e, "input", winner)
	}
	for _, in := range r.inputs {
		if !in.isInFuture {
			continue
		}
		in.isInFuture = false
		if _, ok := r.future.Cause(now); ok {
			r.cfg.Events.Record(slog.LevelWarn, "stamp in the future", r.event(status.EventStampInFuture, in.Channel+": "+in.reason), "input", in.Channel)
		}
	}
	if r.changes.Pending() {
		return eventPeriod
	}
	return longWait
}
