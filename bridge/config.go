package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"achbridge/bridge/achd"
	"achbridge/bridge/delivery"
	"achbridge/bridge/hubway"
	"achbridge/bridge/layout"
	"achbridge/bridge/layouts"
	"achbridge/bridge/pacing"
	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/localach"
	"achbridge/wire"
)

// Config says what a node is to do. Patterns are as in path.Match.
type Config struct {
	Host     string       // name of this host, as others write it
	Node     trust.NodeID // identity of this node
	Dir      localach.Dir // where the channels are
	Source   Source       // tells the node about changes in Dir
	Endpoint *transport.Endpoint
	Hub      hubway.Hub // reaches hosts without a link; nil: there is none
	Machine  Machine
	// Machines are the machines to which commands and pushes for hosts went last, by host name. KeepMachines is
	// called with all machines when one changes; it must not block. Without it they are forgotten when the node ends.
	Machines     map[string]Machine
	KeepMachines func(map[string]Machine)

	Export  rule.Grants // local channels that peers may read; nil: all
	Relay   []string    // mirrors that peers may read as well; nil: none
	Accept  rule.Grants // names that peers may push into; nil: none
	Adopt   []string    // existing channels, not made by achbridge, that a mirror may write into
	Mirrors rule.Mirrors
	Pushes  rule.Pushes
	Layouts layouts.Rules // of this host's own channels, for peers; the first that matches counts
	// NoLoadTest: no load test runs here, whoever asks.
	NoLoadTest bool
	// ProcessorWait returns the share of the last seconds in which this process waited for a processor; known is false if
	// the kernel does not tell. The node calls it several times a second. Nil: it is never known.
	ProcessorWait func(now time.Duration) (share float64, known bool)
	Log           *slog.Logger // nil: no log; it must never block, since frames wait for it (package logline)

	suspended func() time.Duration // in tests, in place of localach.Suspended
	dialAchd  achd.Dial            // in tests, in place of the network
	control   newControl           // in tests, in place of pacing.NewPacer
}

// newControl makes what decides when the packets of a link leave.
type newControl func(*delivery.Flight, pacing.Transport) pacing.Control

// Source tells a node about changes of the channels in its directory. ShmSource is the real
// one; tests in virtual time use one that polls.
type Source interface {
	// Changes calls f for every existing channel, and then for every change, until ctx ends.
	Changes(ctx context.Context, f func(localach.Event)) error
	// NewData calls f soon after every put into ch, until stop is called. f must not block.
	NewData(ch *localach.Channel, f func(seq uint64)) (stop func())
	// Looked returns the earliest time at which a frame may have been put that NewData has not yet reported. It is
	// long ago only when the process was stopped.
	Looked() time.Time
}

// ShmSource is the Source of a running system: inotify for the directory, and
// a Watcher, which the caller runs, for the data.
func ShmSource(dir localach.Dir, w *localach.Watcher) Source { return shmSource{dir, w} }

type shmSource struct {
	dir     localach.Dir
	watcher *localach.Watcher
}

func (s shmSource) Changes(ctx context.Context, f func(localach.Event)) error {
	return s.dir.Watch(ctx, f)
}

func (s shmSource) NewData(ch *localach.Channel, f func(seq uint64)) func() {
	return s.watcher.Watch(ch, f).Close
}

func (s shmSource) Looked() time.Time { return s.watcher.Looked() }

func (c *Config) check() error {
	var errs []error
	hello := wire.Hello{Version: wire.Version, Host: c.Host, Node: trust.NodeID{1}}
	if _, err := wire.AppendMessage(nil, hello); err != nil {
		errs = append(errs, fmt.Errorf("name: %w; choose another with --name", err))
	}
	errs = append(errs, c.Export.Check("export"), c.Accept.Check("accept"))
	errs = append(errs, checkPatterns("relay", c.Relay), checkPatterns("adopt", c.Adopt))
	for i, l := range c.Layouts {
		errs = append(errs, rule.CheckPattern(fmt.Sprintf("types[%d]", i), l.Channels))
		if l.Packed == nil {
			continue
		}
		if _, err := layout.Unpack(l.Packed); err != nil {
			errs = append(errs, fmt.Errorf("types[%d]: %w", i, err))
		}
	}
	for i, m := range c.Mirrors {
		if err := m.Check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cmp.Or(m.From, fmt.Sprintf("mirror[%d]", i)), err))
		}
	}
	for i, p := range c.Pushes {
		if err := p.Check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cmp.Or(p.From, fmt.Sprintf("push[%d]", i)), err))
		}
	}
	return errors.Join(errs...)
}

// settle replaces nil lists by what they stand for, and prepares the layouts.
func (c *Config) settle() {
	if c.Export == nil {
		c.Export = rule.GrantTo("*")
	}
	c.Layouts = c.Layouts.Prepared()
}

func checkPatterns(what string, patterns []string) error {
	var errs []error
	for i, p := range patterns {
		errs = append(errs, rule.CheckPattern(fmt.Sprintf("%s[%d]", what, i), p))
	}
	return errors.Join(errs...)
}
