package locals

import (
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"time"

	"achbridge/bridge/layouts"
	"achbridge/bridge/ring"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// Kernel opens the channels of the kernel's Ach module. Package localach/kernel has it.
type Kernel interface {
	// Opens reports whether programs that open the name get the kernel's channel instead of the one in shared memory.
	Opens(name string) bool
	// TryOpen opens a kernel channel. While the channel is open, later calls return the same one.
	TryOpen(name string) (*localach.Channel, error)
}

// Config holds the parameters that a Table gets from the node.
type Config struct {
	Host    string
	Dir     localach.Dir
	Kernel  Kernel // nil means that kernel channels are not read
	Limit   int    // maximum number of open channels
	Copying *ring.Resources
	Now     func() time.Duration
	Tick    time.Duration // interval between calls of Check
	Log     *slog.Logger
	Warn    func(message string, e status.Event, args ...any) // logs a problem, at a limited rate
	// Facts returns the node's rules and mirrors that concern a channel.
	Facts func(channel string) Facts
	// Closing is called before a channel of the table is closed or replaced.
	Closing func(channel string)
}

// Facts describes a channel by the node's rules and mirrors, whether the channel exists or not.
type Facts struct {
	IsExported   bool          // an export rule lets at least one peer read the channel
	IsNamed      bool          // an export rule names exactly this channel
	IsPushed     bool          // a push rule sends the channel to a peer
	IsRelayed    bool          // a relay rule names the channel
	IsMirror     bool          // a mirror of this host writes into the channel
	IsOutput     bool          // a mux of this host writes into the channel
	IsTemporary  bool          // the name is that of a temporary mirror
	UnprovenHost string        // host that feeds the channel without authentication; empty means none
	Layout       *layouts.Rule // layout of the frames by this host's rules; nil if no rule has one
}

// Table holds the channels of this host.
type Table struct {
	cfg       Config
	byName    map[string]*Channel
	openCount int
	noInotify string
}

// New returns an empty table.
func New(cfg Config) *Table { return &Table{cfg: cfg, byName: make(map[string]*Channel)} }

// Get returns a channel, or nil if it does not exist.
func (t *Table) Get(name string) *Channel { return t.byName[name] }

// All returns the channels by name, in no particular order. The caller may update channels while iterating.
func (t *Table) All() iter.Seq2[string, *Channel] { return maps.All(t.byName) }

// NoInotify returns why the kernel does not report changes of the directory, which is then polled. It returns "" if
// inotify works.
func (t *Table) NoInotify() string { return t.noInotify }

// Handle handles an event about the directory itself. It returns false for the change of a channel; the caller must then
// call Update.
func (t *Table) Handle(e localach.Event) bool {
	switch e.Kind {
	case localach.Polling, localach.Notified:
		if t.noInotify = ""; e.Err != nil {
			t.noInotify = e.Err.Error()
			t.cfg.Log.Warn("inotify unavailable, polling for new channels four times a second", "err", e.Err)
			return true
		}
		t.cfg.Log.Info("inotify available again", "dir", string(t.cfg.Dir))
	case localach.Omitted:
		t.warnOmitted(e.Name, "too many channels; remove some (achbridge channel rm)")
	default:
		return false
	}
	return true
}

// Update opens a channel that appeared, was replaced or was damaged, and removes one whose file is gone. It reports
// whether peers may see a change.
func (t *Table) Update(name string) (changed bool) {
	old, found := t.byName[name], t.find(name)
	if found.isSame(old) {
		if found.Ring != old.Ring {
			found.close()
		}
		changed = old.IsMirror != found.IsMirror
		old.IsMirror, old.Reason, old.Cause, old.Layout = found.IsMirror, found.Reason, found.Cause, found.Layout
		return changed
	}
	if old != nil {
		t.cfg.Closing(name)
		t.shut(old)
	}
	delete(t.byName, name)
	if found != nil {
		t.add(found)
	}
	return true
}

// add adds a channel to the table. It closes the channel if too many are open.
func (t *Table) add(c *Channel) {
	t.byName[c.Name] = c
	if !c.IsOpen() {
		return
	}
	if t.openCount++; t.openCount <= t.cfg.Limit {
		return
	}
	t.shut(c)
	c.isOmitted, c.Cause, c.retryAt = true, status.CauseLimit, t.cfg.Now()+retryAfter
	c.Reason = fmt.Sprintf("too many channels: %d are offered already; remove some (achbridge channel rm)", t.cfg.Limit)
	t.warnOmitted(c.Name, c.Reason)
}

// shut closes a channel of the table if it is open.
func (t *Table) shut(c *Channel) {
	if c.IsOpen() {
		c.close()
		c.Ring = nil
		t.openCount--
	}
}

// warnOmitted logs why a channel is not offered.
func (t *Table) warnOmitted(name, why string) {
	t.cfg.Warn("channel left out", status.Event{Kind: status.EventRefused, Channel: name, Text: why}, "cause", why)
}

// checkedAtOnce is the maximum number of channels without readers checked in one tick. Each check is a system call.
const checkedAtOnce = 2000

// Check calls update for each channel whose file has changed since it was opened, and for unusable channels that are due
// for another try.
func (t *Table) Check(update func(name string)) {
	now := t.cfg.Now()
	for name, c := range t.byName {
		if c.IsOpen() && now < c.checkAt && !c.Copies.Used() || c.isOmitted && t.openCount >= t.cfg.Limit {
			continue
		}
		c.checkAt = now + t.spread()
		if c.isDue(now) {
			update(name)
		}
	}
}

// spread returns the delay until a channel without readers is checked again. It includes a random part, so that checks
// are spread over the ticks.
func (t *Table) spread() time.Duration {
	rounds := time.Duration(len(t.byName) / checkedAtOnce)
	return rounds*t.cfg.Tick/2 + rand.N(rounds*t.cfg.Tick+1)
}

// Close closes all channels. The table must not be used afterwards.
func (t *Table) Close() {
	for _, c := range t.byName {
		c.close()
	}
}
