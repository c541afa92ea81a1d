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
	"achbridge/bridge/locals"
	"achbridge/bridge/mirror"
	"achbridge/bridge/pacing"
	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/localach"
	"achbridge/wire"
)

// Config has the settings of a node. Patterns are those of path.Match.
type Config struct {
	Host   string       // name of this host, as other hosts know it
	Node   trust.NodeID // identity of this node
	Dir    localach.Dir // directory of the channels
	Source Source       // reports changes in Dir
	Kernel Kernel       // channels of the kernel's Ach module, which are exported too; nil means none
	// KernelMirrors makes copies of the mirrors in the kernel. It needs Kernel, which notices removed devices. nil means none.
	KernelMirrors mirror.Kernel
	Endpoint      *transport.Endpoint
	Hub           hubway.Hub // reaches hosts without a link; nil without a hub
	Machine       Machine
	// Machines are the machines to which commands and pushes for hosts last went, by host name.
	// The node calls KeepMachines with all machines when one changes; it must not block. If
	// KeepMachines is nil, the machines are lost when the node ends.
	Machines     map[string]Machine
	KeepMachines func(map[string]Machine)
	// Locks has the operator locks as KeepLocks stored them last. KeepLocks returns when they are on the disk. The
	// node calls it before it answers a request for a lock. If KeepLocks is nil, no lock can be taken.
	Locks     []byte
	KeepLocks func([]byte) error

	Export  rule.Grants // local channels that peers may read; nil means all
	Relay   []string    // mirrors that peers may read too; nil means none
	Accept  rule.Grants // names of channels that peers may push; nil means none
	Adopt   []string    // existing channels, not made by achbridge, that a mirror may write into
	Mirrors rule.Mirrors
	Muxes   rule.Muxes
	Pushes  rule.Pushes
	Layouts layouts.Rules // layouts of this host's channels, which peers may request; the first rule that matches applies
	// Published returns the encoded layout of a channel of this host for which Layouts has none, or nil if the channel has no
	// layout. It must not block. Published may be nil.
	Published func(channel string) (encoded []byte)
	// DialAchd connects to hosts that run achd; nil means achd.DialNetwork.
	DialAchd achd.Dial
	// ForgetAfter is the time without a link after which a host is forgotten, as by Node.Forget. Hosts that a rule or request
	// names without a pattern are kept. 0 means never.
	ForgetAfter time.Duration
	// NoLoadTest disables load tests on this host, including those that peers request.
	NoLoadTest bool
	// NoDSCP sends all packets as best effort.
	NoDSCP bool
	// CPUWait returns the share of the last seconds during which this process waited for a
	// CPU. known is false if the kernel does not report it. The node calls CPUWait several
	// times a second. nil means that the share is unknown.
	CPUWait func(now time.Duration) (share float64, known bool)
	Log     *slog.Logger // nil means no log; must never block, since frames would wait for it (package logline)

	testing testConfig
}

// testConfig replaces parts of a node in tests. A nil field means the real part.
type testConfig struct {
	suspended func() time.Duration // in place of localach.Suspended
	monotonic func() time.Duration // in place of CLOCK_MONOTONIC
	control   newControl           // in place of pacing.NewPacer
}

// newControl makes the congestion control of a link, which decides when its packets are sent.
type newControl func(*delivery.SentPackets, pacing.Transport) pacing.Control

// Source reports changes of the channels in a node's directory. ShmSource is the real
// implementation; tests in virtual time use one that polls.
type Source interface {
	// Changes calls f for every existing channel, and then for every change, until ctx ends.
	Changes(ctx context.Context, f func(localach.Event)) error
	// NewData calls f soon after every put into ch, until stop is called. f must not block.
	NewData(ch *localach.Channel, f func(seq uint64)) (stop func())
	// LastPoll returns the earliest time at which a frame may have been put that NewData has not yet
	// reported. The time is recent unless the process was stopped.
	LastPoll() time.Time
}

// Kernel opens the channels of the kernel's Ach module, and reports their changes. Package localach/kernel has it.
type Kernel interface {
	locals.Kernel
	// Watch calls f for every existing channel, and then for every change, until ctx ends.
	Watch(ctx context.Context, f func(localach.Event)) error
}

// ShmSource returns the Source of a real system. It uses inotify for the directory, and w, which
// the caller runs, for new data.
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

func (s shmSource) LastPoll() time.Time { return s.watcher.LastPoll() }

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
		if l.Encoded == nil {
			continue
		}
		if _, err := layout.DecodeLayout(l.Encoded); err != nil {
			errs = append(errs, fmt.Errorf("types[%d]: %w", i, err))
		}
	}
	for i, m := range c.Mirrors {
		if err := cmp.Or(m.Check(), c.Mirrors.CheckMerge(i, c.Accept)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cmp.Or(m.From, fmt.Sprintf("mirror[%d]", i)), err))
		}
	}
	errs = append(errs, c.Muxes.Check(c.Mirrors, c.Accept))
	for i, p := range c.Pushes {
		if err := p.Check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cmp.Or(p.From, fmt.Sprintf("push[%d]", i)), err))
		}
	}
	return errors.Join(errs...)
}

// settle replaces a nil Export by the default, and prepares the layouts.
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
