package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/bridge/via"
	"achbridge/localach"
	"achbridge/wire"
)

// Config says what a node is to do. Patterns are as in path.Match.
type Config struct {
	Host     string       // name of this host, as others write it
	Node     trust.NodeID // identity of this node
	Dir      localach.Dir // where the channels are
	Source   Source       // how the node learns of changes there
	Endpoint *transport.Endpoint

	Export  rule.Grants // local channels that peers may read; nil: all
	Relay   []string    // mirrors that peers may read as well; nil: none
	Accept  rule.Grants // names that peers may push into; nil: none
	Adopt   []string    // existing channels, not made by achbridge, that a mirror may write into
	Mirrors rule.Mirrors
	Pushes  rule.Pushes
	Log     *slog.Logger // nil: no log; frames wait for it, so it must wait for nobody (package logline)

	suspended func() time.Duration // in tests, in place of localach.Suspended
}

// Peer is another node that may be dialled, as it is listed or announced. It says where
// to look, and never who is there: that is what a certificate proves.
type Peer struct {
	Host   string            // its name, as is said; empty when not known
	Node   string            // its node id in hex, as is said; empty when not known
	Addrs  []transport.Addrs // best first
	Static bool              // listed by the operator: always dialled, and there is always room for it
	// Source is who announced it: one of several that may claim the same node or name.
	// Empty: the operator has listed it, or a domain's zone does. What is only announced
	// is dialled within a budget (claim.go).
	Source string
	// Asked: somebody wants to know its channels, so it is dialled though no wish is for it.
	Asked bool
	// Over is the only transport by which to be linked with it.
	Over via.Kind
}

// Source is how a node learns what happens to the channels of its directory.
// ShmSource is the real one; tests in virtual time bring one that polls.
type Source interface {
	// Changes calls f for every channel there is and then for every change, until ctx ends.
	Changes(ctx context.Context, f func(localach.Event)) error
	// NewData calls f, which does not block, soon after every put into ch. stop ends that.
	NewData(ch *localach.Channel, f func(seq uint64)) (stop func())
	// Looked is a moment that every frame was put after, or just before, of which NewData has not told when Looked is
	// called: long ago only when the process stood still.
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

// settle fills in what an empty list stands for.
func (c *Config) settle() {
	if c.Export == nil {
		c.Export = rule.GrantTo("*")
	}
}

func checkPatterns(what string, patterns []string) error {
	var errs []error
	for i, p := range patterns {
		errs = append(errs, rule.CheckPattern(fmt.Sprintf("%s[%d]", what, i), p))
	}
	return errors.Join(errs...)
}
