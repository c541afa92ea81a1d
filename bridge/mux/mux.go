package mux

import (
	"context"
	"slices"
	"time"

	"achbridge/bridge/lock"
	"achbridge/bridge/mirror"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// Config holds the parameters that a mux gets from the node.
type Config struct {
	Node      [16]byte // identity of this host's node
	Dir       localach.Dir
	Source    ring.Source
	Clock     ring.Clock
	Monotonic mirror.Clock // converts times of Clock; its Suspended must be set
	Events    *status.Journal
	Spawn     func(func()) // starts a goroutine for which the node waits
}

// InputFacts are the facts that the node provides about an input of a mux.
type InputFacts struct {
	Mirror  *mirror.Mirror  // the mirror that writes the channel; nil if no mirror does
	Shifter *stamps.Shifter // reads the expiry in stamps; nil if the input has Live, or while the layout is unknown
	Problem string          // why no frame of the channel can be live; empty if some may
	// Generation is the generation of the operator lock, if the rule needs one. When it changes, earlier frames are not
	// live any more.
	Generation uint64
}

// Mux is a running mux. Its methods belong to the node's goroutine.
type Mux struct {
	cfg    Config
	output *mirror.Mirror
	stop   context.CancelFunc
	wakes  chan struct{} // has capacity 1

	mu             lock.Mutex[lock.Leaf] // guards what follows
	rule           rule.Mux
	facts          []InputFacts  // in the order of the rule's inputs
	isFileCheckDue bool          // the files of the channels must be checked
	report         status.Mux    // the status, without SinceS
	since          time.Duration // when the winner last changed
}

// Start starts the mux of a rule. facts are in the order of its inputs. output must be a mirror with the name of the
// rule's output, which nothing else feeds.
func Start(ctx context.Context, cfg Config, r rule.Mux, facts []InputFacts, output *mirror.Mirror) *Mux {
	ctx, stop := context.WithCancel(ctx)
	m := &Mux{cfg: cfg, output: output, stop: stop, wakes: make(chan struct{}, 1), rule: r, facts: facts, isFileCheckDue: true, since: cfg.Clock.Now()}
	for _, in := range r.Inputs {
		m.report.Inputs = append(m.report.Inputs, status.MuxInput{Channel: in.Channel})
	}
	output.Unfed("", "the mux begins")
	cfg.Spawn(func() { newRunner(m).run(ctx) })
	return m
}

// Set replaces the rule, whose output must be the same, and the facts about its inputs. Shared inputs stay live.
func (m *Mux) Set(r rule.Mux, facts []InputFacts) {
	m.mu.Lock()
	isSame := m.rule.Equal(r) && slices.Equal(m.facts, facts)
	m.rule, m.facts = r, facts
	m.isFileCheckDue = m.isFileCheckDue || !isSame
	m.mu.Unlock()
	if !isSame {
		m.wake()
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

// Stop stops the mux. The output keeps its newest frame. m may be nil.
func (m *Mux) Stop() {
	if m != nil {
		m.stop()
	}
}

// Status returns the status at now, by the node's clock; nil if m is nil.
func (m *Mux) Status(now time.Duration) *status.Mux {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.report
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
