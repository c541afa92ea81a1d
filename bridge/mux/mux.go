package mux

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/lock"
	"achbridge/bridge/logline"
	"achbridge/bridge/mirror"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// Config holds the parameters that a mux gets from the node.
type Config struct {
	Node      [16]byte // identity of this host's node
	Dir       localach.Dir
	Source    ring.Source
	Clock     ring.Clock
	At        time.Duration        // CLOCK_MONOTONIC at the start of Clock
	Suspended func() time.Duration // total time for which this host was suspended
	Events    *status.Journal
	Spawn     func(func()) // starts a goroutine for which the node waits
	// Compile returns the shifter that judges the stamps of a channel's frames.
	Compile func(channel string, r stamps.Rule) (*stamps.Shifter, error)
}

// monotonic converts a time of the node's clock to CLOCK_MONOTONIC.
func (c *Config) monotonic(t time.Duration) time.Duration { return c.At + t }

// Mux is a running mux. Its methods belong to the node's goroutine.
type Mux struct {
	rule   rule.Mux
	cfg    Config
	output *mirror.Mirror
	stop   context.CancelFunc
	wakes  chan struct{} // has capacity 1
	runner *runner
	ended  chan struct{} // closed when runner has ended; its fields may be read then

	mu             lock.Mutex[lock.Leaf] // guards what follows
	isReplaced     bool                  // runner leaves its channels open, for the mux that replaces this one
	isFileCheckDue bool                  // the files of the channels must be checked
	facts          []InputFacts          // in the order of the rule
	shown          status.Mux            // the status, without SinceS
	since          time.Duration         // when the winner last changed
}

// InputFacts are the facts that the node provides about an input of a mux.
type InputFacts struct {
	Mirror *mirror.Mirror // the mirror that writes the channel; nil if no mirror does
	Denied string         // why the channel must not be an input; empty if it may
}

// Start starts the mux of a rule. facts are in the order of its inputs. output must be a mirror with the name of the
// rule's output, which nothing else feeds. If former is not nil, Start stops it; its inputs that the rule still has stay
// live, so that a change of the rule does not stop a robot.
func Start(ctx context.Context, cfg Config, r rule.Mux, facts []InputFacts, output *mirror.Mirror, former *Mux) *Mux {
	ctx, stop := context.WithCancel(ctx)
	m := &Mux{rule: r, cfg: cfg, output: output, stop: stop, wakes: make(chan struct{}, 1), ended: make(chan struct{}), isFileCheckDue: true, facts: facts}
	m.runner = &runner{Mux: m, winner: none, suspended: cfg.Suspended()}
	for _, in := range r.Inputs {
		m.shown.Inputs = append(m.shown.Inputs, status.MuxInput{Channel: in.Channel})
	}
	if former == nil {
		output.Unfed("", "the mux begins")
	} else {
		former.mu.Lock()
		former.isReplaced = true
		former.mu.Unlock()
		former.stop()
		m.wakes = former.wakes // the inputs that m takes over wake it
	}
	cfg.Spawn(func() { m.runner.run(ctx, former) })
	return m
}

// Runs reports whether m is the mux of a rule. m may be nil.
func (m *Mux) Runs(r rule.Mux) bool { return m != nil && m.rule.Equal(r) }

// Stop stops the mux. The output keeps its newest frame. m may be nil.
func (m *Mux) Stop() {
	if m != nil {
		m.stop()
	}
}

// CheckFiles makes the mux check the files of its channels. Call it several times a second, and when the directory of
// the channels has changed.
func (m *Mux) CheckFiles() {
	m.mu.Lock()
	m.isFileCheckDue = true
	m.mu.Unlock()
	m.wake()
}

// SetFacts replaces the facts about the inputs. They are in the order of the rule.
func (m *Mux) SetFacts(facts []InputFacts) {
	m.mu.Lock()
	isNew := !slices.Equal(m.facts, facts)
	m.facts = facts
	m.mu.Unlock()
	if isNew {
		m.CheckFiles()
	}
}

// Status returns the status at now, by the node's clock; nil if m is nil.
func (m *Mux) Status(now time.Duration) *status.Mux {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shown
	s.Inputs, s.SinceS = slices.Clone(s.Inputs), (now - m.since).Seconds()
	return &s
}

// wake makes the goroutine take a turn. It does not block.
func (m *Mux) wake() {
	select {
	case m.wakes <- struct{}{}:
	default:
	}
}

// runner is the goroutine of a mux.
type runner struct {
	*Mux
	former    *runner  // the mux that this one replaces, until prepare has taken over its inputs; otherwise nil
	inputs    []*input // nil before prepare
	lock      *os.File
	safe      *stamps.Shifter // sets the time in the safe frame; nil if it has none
	selector  *selector
	feed      *mirror.Feed  // nil while the output cannot be used
	lastPut   uint64        // number of the last frame that was put
	suspended time.Duration // total time in suspend, at the last turn
	winner    int
	buf       []byte

	changes logline.Limit // limits events about the winner
	future  logline.Limit // limits events about stamps in the future
}

const (
	busyRetry   = time.Millisecond // until the next turn while the lock of the output or of an input is taken
	failedRetry = 100 * time.Millisecond
	longWait    = time.Hour
	eventPeriod = time.Second // between two events about the winner after eventBurst of them, or about stamps in the future
	eventBurst  = 10
)

// run merges the inputs until ctx ends. It continues the work of former, which may be nil.
func (r *runner) run(ctx context.Context, former *Mux) {
	if former != nil {
		<-former.ended
		r.former = former.runner
		r.lock = r.former.lock
		if former.rule.QoS() == r.rule.QoS() {
			r.feed, r.lastPut = r.former.feed, r.former.lastPut
		}
	}
	defer r.end()
	r.changes = logline.Limit{Burst: eventBurst, Period: eventPeriod}
	r.future.Period = eventPeriod
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-r.wakes:
		case <-t.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		t.Reset(r.turn())
	}
}

// end closes the channels, unless another mux replaces this one.
func (r *runner) end() {
	defer close(r.ended)
	r.endFormer()
	r.mu.Lock()
	isReplaced := r.isReplaced
	r.mu.Unlock()
	if isReplaced {
		return
	}
	for _, in := range r.inputs {
		in.close()
	}
	if r.lock != nil {
		r.lock.Close()
	}
}

// takeOver returns the input of the former mux with the same rule, and its state. ok is false if there is none.
func (r *runner) takeOver(like rule.MuxInput) (in *input, state inputState, ok bool) {
	if r.former == nil {
		return nil, state, false
	}
	i := slices.IndexFunc(r.former.inputs, func(in *input) bool { return in != nil && in.MuxInput == like })
	if i < 0 {
		return nil, state, false
	}
	in, r.former.inputs[i] = r.former.inputs[i], nil
	in.isNew = false
	return in, r.former.selector.inputs[i], true
}

// endFormer closes the inputs of the former mux that this one has not taken over.
func (r *runner) endFormer() {
	if r.former == nil {
		return
	}
	for _, in := range r.former.inputs {
		if in != nil {
			in.close()
		}
	}
	r.former = nil
}

// turn reads new frames, decides which input wins, and puts a frame. It returns the time until the next turn.
func (r *runner) turn() time.Duration {
	checksFiles, isFirst := r.takeFacts(), r.inputs == nil
	if isFirst {
		if err := r.prepare(); err != nil {
			r.refuse(err)
			return failedRetry
		}
	}
	isBusy := r.readInputs(checksFiles, isFirst)
	if checksFiles || r.feed == nil {
		if err := r.checkOutput(); err != nil {
			r.refuse(err)
			return failedRetry
		}
	}
	now := r.cfg.Clock.Now()
	d := r.selector.decide(now)
	wait := longWait
	if d.next != 0 {
		wait = max(0, d.next-now)
	}
	wait = min(wait, r.put(d, now), r.show(d, now))
	if isBusy {
		wait = min(wait, busyRetry)
	}
	return wait
}

// takeFacts stores the facts in the inputs. It reports whether to check the files of the channels.
func (r *runner) takeFacts() (checksFiles bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	checksFiles, r.isFileCheckDue = r.isFileCheckDue, false
	for i, in := range r.inputs {
		in.InputFacts = r.facts[i]
	}
	return checksFiles
}

// prepare locks the output, and compiles the rules for the stamps. On an error it can be called again.
func (r *runner) prepare() (err error) {
	if r.lock == nil {
		if r.lock, err = lockFile(r.cfg.Dir, r.rule.Output); err != nil {
			return err
		}
	}
	shifters := make([]*stamps.Shifter, len(r.rule.Inputs))
	for i, in := range r.rule.Inputs {
		if in.Expiry == "" {
			continue
		}
		if shifters[i], err = r.cfg.Compile(in.Channel, in.Expiry); err != nil {
			return fmt.Errorf("input %s: expiry %s: %w", in.Channel, in.Expiry, err)
		}
		r.safe = cmp.Or(r.safe, shifters[i])
	}
	if r.hasSafe() && r.safe != nil {
		if _, err := r.safe.Stamp(nil, []byte(r.rule.Safe.Frame), time.Second); err != nil {
			return fmt.Errorf("safe %s: the time of the put cannot be set: %w", r.rule.Safe.File, err)
		}
	}
	r.selector = newSelector(len(shifters), r.rule.Hold, r.rule.CatchUp, !r.endsSafe())
	for i, like := range r.rule.Inputs {
		in, state, ok := r.takeOver(like)
		if !ok {
			in = &input{MuxInput: like, isNew: true}
		}
		in.InputFacts, in.shifter, r.selector.inputs[i] = r.factsOf(i), shifters[i], state
		r.inputs = append(r.inputs, in)
	}
	r.endFormer()
	return nil
}

// factsOf returns the facts about input i.
func (r *runner) factsOf(i int) InputFacts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts[i]
}

func (r *runner) hasSafe() bool { return r.rule.Safe.File != "" }

// readInputs reads the new frames of all inputs. With checksFiles it opens their channels first. isBusy reports that a
// frame could not be read yet.
func (r *runner) readInputs(checksFiles, isFirst bool) (isBusy bool) {
	total := r.cfg.Suspended()
	isSuspended := clock.Slept(r.suspended, total)
	r.suspended = total
	for i, in := range r.inputs {
		if checksFiles {
			in.open(&r.cfg, r.wake)
		}
		until, ok := in.read(&r.cfg)
		switch now := r.cfg.Clock.Now(); {
		case ok && isFirst && in.isNew:
			r.selector.found(i, now, until)
		case ok:
			r.selector.frame(i, now, until)
		}
		isBusy = isBusy || in.isBusy
	}
	if isSuspended {
		r.selector.suspended()
	}
	return isBusy
}

// checkOutput opens the output, or repairs it.
func (r *runner) checkOutput() error {
	if r.feed != nil {
		if _, _, err := r.output.Check(); err == nil {
			if _, err := r.newest(); errors.Is(err, os.ErrDeadlineExceeded) {
				r.selector.needsSafe = true // the file is new
			}
			return nil
		}
		r.feed = nil
	}
	feed, qos := &mirror.Feed{Epoch: rand.Uint64() | 1}, r.rule.QoS()
	if err := r.output.Open(r.channel(feed.Epoch), r.cfg.Node, "", qos); err != nil {
		return err
	}
	r.output.Subscribe(feed, qos)
	if _, err := r.output.Begin(feed.Epoch, 0, 0); err != nil {
		return err
	}
	r.feed, r.lastPut, r.selector.needsSafe = feed, 0, !r.endsSafe()
	return nil
}

// channel describes the output: it has room for the frames of all inputs.
func (r *runner) channel(epoch uint64) wire.Channel {
	c := wire.Channel{Name: r.rule.Output, Epoch: epoch, FrameCount: 16, FrameSize: max(256, len(r.rule.Safe.Frame))}
	for _, in := range r.inputs {
		if in.ch != nil {
			g := in.ch.Geometry()
			c.FrameCount, c.FrameSize = max(c.FrameCount, g.FrameCount), max(c.FrameSize, g.FrameSize)
		}
	}
	return c
}

// newest returns the newest frame of the output, if it is not larger than the safe frame can be.
func (r *runner) newest() ([]byte, error) {
	const stampGrowth = 64 // a stamp in a protobuf message may need more bytes than in the file
	r.buf = slices.Grow(r.buf[:0], len(r.rule.Safe.Frame)+stampGrowth)
	n, err := r.output.Newest(r.buf[:cap(r.buf)])
	if err != nil {
		return nil, err
	}
	return r.buf[:n], nil
}

// endsSafe reports whether the newest frame of the output is the safe frame, whatever the time in it.
func (r *runner) endsSafe() bool {
	newest, err := r.newest()
	if err != nil {
		return false
	}
	if r.safe == nil {
		return string(newest) == r.rule.Safe.Frame
	}
	a, errA := r.safe.Stamp(nil, newest, time.Second)
	b, errB := r.safe.Stamp(nil, []byte(r.rule.Safe.Frame), time.Second)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// put puts the frame of a decision. It returns the time until the next try.
func (r *runner) put(d decision, now time.Duration) time.Duration {
	a := mirror.Arrival{From: r.feed, Epoch: r.feed.Epoch, Seq: r.lastPut + 1, At: mirror.Reading{Now: now}}
	switch isSafe := d.safe && r.hasSafe(); {
	case d.put != none:
		in := r.inputs[d.put]
		a.Data, a.Captured, a.At.Known, a.At.Uncertainty = in.frame, in.captured, in.captured != 0, in.error
	case isSafe && r.safe != nil:
		r.buf, _ = r.safe.Stamp(r.buf[:0], []byte(r.rule.Safe.Frame), r.cfg.monotonic(now)) // prepare has tried it
		a.Data = r.buf
	case isSafe:
		a.Data = []byte(r.rule.Safe.Frame)
	default:
		return longWait
	}
	a.Sent = len(a.Data)
	switch err := r.output.PutNow(a, d.put == none); {
	case mirror.IsBusy(err):
		return busyRetry
	case err != nil && d.put == none:
		return failedRetry
	case err == nil:
		r.lastPut++
		if d.put != none {
			r.inputs[d.put].put++
		}
	}
	r.selector.sent(d)
	return longWait
}

// refuse records why the mux cannot run.
func (r *runner) refuse(err error) {
	if r.output.Refuse(mirror.CauseOf(err), err.Error()) {
		r.cfg.Events.Record(slog.LevelWarn, "mux cannot run", r.event(status.EventRefused, err.Error()), "err", err)
	}
}

func (r *runner) event(kind status.EventKind, text string) status.Event {
	return status.Event{Kind: kind, Channel: r.rule.Output, Mirror: r.rule.Output, Text: text}
}

// show updates the status, the metadata channel and the events. It returns the time until the next event may be due.
func (r *runner) show(d decision, now time.Duration) time.Duration {
	if d.winner != r.winner {
		r.winner = d.winner
		r.output.ShowInput(uint8(d.winner + 1))
		r.changes.Add()
	}
	r.mu.Lock()
	s := &r.shown
	winner := ""
	if d.winner != none {
		winner = r.rule.Inputs[d.winner].Channel
	}
	if s.Winner != winner {
		s.Winner, r.since = winner, now
		s.Changes++
	}
	for i, in := range r.inputs {
		l := &r.selector.inputs[i]
		s.Inputs[i] = status.MuxInput{Channel: in.Channel, State: l.phase.String(), Reason: in.reason, Frames: in.frames, Put: in.put, Refused: in.refused}
	}
	r.mu.Unlock()
	return r.report(d, winner, now)
}

// report records events about the winner and about stamps in the future.
func (r *runner) report(d decision, winner string, now time.Duration) time.Duration {
	if changes, ok := r.changes.Due(now); ok {
		text := "no input is live"
		switch {
		case winner != "":
			text = winner + " wins"
		case r.hasSafe():
			text += "; the safe frame was put"
		}
		if changes > 1 {
			text += fmt.Sprintf(", after %d changes", changes)
		}
		e := r.event(status.EventMuxChanged, text)
		e.Count = changes
		r.cfg.Events.Record(slog.LevelInfo, "input of a mux wins", e, "input", winner)
	}
	for _, in := range r.inputs {
		if !in.inFuture {
			continue
		}
		in.inFuture = false
		if _, ok := r.future.Cause(now); ok {
			r.cfg.Events.Record(slog.LevelWarn, "stamp in the future", r.event(status.EventStampInFuture, in.Channel+": "+in.reason), "input", in.Channel)
		}
	}
	if r.changes.Pending() {
		return eventPeriod
	}
	return longWait
}
