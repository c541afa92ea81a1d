package locals

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"achbridge/bridge/layouts"
	"achbridge/bridge/mirror"
	"achbridge/bridge/ring"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// Channel is one channel of this host that peers may be allowed to read. Only its Table modifies the fields.
type Channel struct {
	Name     string
	Ring     *localach.Channel // nil if the channel cannot be used; links may use Ring too
	Copies   *ring.Snapshots   // copies of the channel's large frames
	Tag      localach.Tag      // tag of the mirror file; zero if the channel is not a mirror
	IsKernel bool              // the channel is in the kernel, and Ring has copies of its frames
	IsMirror bool              // the channel is a mirror by its tag, or an adopted channel that a mirror writes into
	Reason   string            // why the channel is not offered to all peers; empty if it is
	Cause    status.Cause      // the cause of Reason
	Layout   *layouts.Rule     // layout of the frames; nil for a mirror, or if no rule of this host has one

	retryAt   time.Duration     // next time to try to open the channel; 0 means never
	checkAt   time.Duration     // next time to check that the channel's file has not changed
	isOmitted bool              // the channel is not open because too many others are
	before    *localach.Channel // closed; the channel whose file a program is replacing; nil means none

	largest   int           // size of the largest frame seen, bytes, if above the nominal size
	largestAt time.Duration // when the ring was last searched for its largest frame; 0 means never
}

// IsOpen reports whether the channel can be read. c may be nil.
func (c *Channel) IsOpen() bool { return c != nil && c.Ring != nil }

func (c *Channel) close() {
	if c.IsOpen() {
		c.Ring.Close()
	}
}

// isSame reports whether two open channels are the same epoch of the same file.
func (c *Channel) isSame(old *Channel) bool {
	return c.IsOpen() && old.IsOpen() && c.Ring.Epoch() == old.Ring.Epoch() && old.Ring.Check() == nil
}

// isDue reports whether to open the channel again: its file has changed, or an unusable channel is due for another try.
func (c *Channel) isDue(now time.Duration) bool {
	if c.IsOpen() {
		return c.Ring.Check() != nil
	}
	return c.retryAt != 0 && now >= c.retryAt
}

// Status returns the channel's status.
func (c *Channel) Status() status.Local {
	s := status.Local{Channel: c.Name, Exported: c.IsOpen() && c.Reason == "", Reason: c.Reason, Cause: c.Cause}
	if c.IsKernel {
		s.Kind = status.KindKernel
	}
	if c.IsOpen() {
		g := c.Ring.Geometry()
		s.FrameCount, s.FrameSize, s.Seq, s.Ach1x = g.FrameCount, g.FrameSize, c.Ring.LastSeq(), c.Ring.IsAch1x()
		if stat, err := c.Ring.Stat(); err == nil {
			s.Waking, s.Missed = stat.Waking, stat.Missed
		}
	}
	return s
}

const (
	// retryAfter is the interval between attempts to open an unusable channel.
	retryAfter = time.Second
	// sizeAgain is the interval between searches of a ring for its largest frame.
	sizeAgain = time.Second
)

// LargestFrame returns the size in bytes of the largest frame seen in an open channel, 0 if none was above the nominal
// size. It searches the ring at most once per sizeAgain.
func (c *Channel) LargestFrame(now time.Duration) int {
	if c.largestAt == 0 || now >= c.largestAt+sizeAgain {
		c.largestAt = max(now, 1)
		if n := min(c.Ring.LargestFrame(), wire.MaxFrame); n > c.Ring.Geometry().FrameSize {
			c.largest = max(c.largest, n)
		}
	}
	return c.largest
}

// find returns the current state of a channel: open, or with the reason why it is not offered. It returns nil if the
// channel does not exist.
func (t *Table) find(name string) *Channel {
	c, facts := &Channel{Name: name}, t.cfg.Facts(name)
	switch {
	case !facts.IsExported && !facts.IsRelayed && !facts.IsPushed:
		return c.refuse(status.CauseExportRule, "not exported: no --export pattern matches")
	case facts.UnprovenHost != "":
		c.IsMirror = true
		return c.refuse(status.CauseExportRule, "it comes from "+facts.UnprovenHost+" without authentication: it is not offered to others")
	}
	old := t.byName[name]
	c.IsKernel = t.cfg.Kernel != nil && !facts.IsMirror && !facts.IsOutput && t.cfg.Kernel.Opens(name)
	found, err := t.open(c, old)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		c.Tag = found.Tag()
		if err = found.Check(); err == nil {
			return t.judge(c, found, facts)
		}
		found.Close()
	}
	t.fail(c, old, err)
	return c
}

// refuse records why a channel is not offered.
func (c *Channel) refuse(cause status.Cause, reason string) *Channel {
	c.Cause, c.Reason = cause, reason
	return c
}

// open opens channel c. old is what the table had for the name, or nil. If the same file was initialised again in place, the
// result has another epoch than old. For a kernel channel that is open already, the result is old.Ring.
func (t *Table) open(c, old *Channel) (*localach.Channel, error) {
	switch {
	case c.IsKernel:
		return t.cfg.Kernel.TryOpen(c.Name)
	case old == nil:
	case old.before != nil:
		return old.before.ReopenReinitialised()
	case old.IsOpen() && errors.Is(old.Ring.Check(), localach.ErrReinitialised):
		return old.Ring.Reopen()
	}
	return t.cfg.Dir.TryOpenToRead(c.Name)
}

// judge decides whether an opened channel is offered. It closes found if the channel is not to be read.
func (t *Table) judge(c *Channel, found *localach.Channel, facts Facts) *Channel {
	_, meta := mirror.MetaOf(c.Name, c.Tag)
	c.IsMirror = c.Tag != (localach.Tag{}) && !meta && !facts.IsOutput || facts.IsMirror
	why := mirror.Unsendable(found.Geometry())
	switch {
	case meta && !facts.IsNamed:
		c.refuse("", "it describes a mirror of this host, by this host's clock; only an --export of exactly this name offers it")
	case c.IsMirror && (!facts.IsRelayed || facts.IsTemporary):
		c.refuse(status.CauseExportRule, "it is a mirror; --relay offers mirrors again")
	case why != "":
		c.refuse(status.CauseLimit, why)
	default:
		c.Ring, c.Copies = found, ring.NewSnapshots(found, t.cfg.Copying)
		if c.IsMirror {
			return c
		}
		c.Layout = facts.Layout
		if !facts.IsExported {
			c.refuse(status.CauseExportRule, "only pushed: no --export pattern matches")
		}
		return c
	}
	found.Close()
	return c
}

// fail records why a channel cannot be used, and when to retry. It logs the reason if that has changed.
func (t *Table) fail(c, old *Channel, err error) {
	unready := errors.Is(err, localach.ErrHalfCreated) || errors.Is(err, localach.ErrTruncated) // libach is still creating the file
	if errors.Is(err, localach.ErrForeign) || errors.Is(err, localach.ErrCorrupt) && !unready {
		err = fmt.Errorf("%w; %s", err, t.fix(c, err))
	}
	c.refuse(mirror.CauseOf(err), err.Error())
	c.retryAt = t.cfg.Now() + retryAfter + t.spread()
	if errors.Is(err, fs.ErrPermission) && !c.IsKernel {
		c.Reason = "no permission: readers need write permission too (chmod 0660 and a common group)"
	}
	if unready && old != nil {
		c.before = cmp.Or(old.before, old.Ring)
	}
	if unready && (old == nil || old.IsOpen()) {
		c.Reason, c.retryAt = "it is being made", t.cfg.Now()+t.cfg.Tick
	} else if old == nil || old.Reason != c.Reason {
		t.cfg.Warn("channel cannot be used", status.Event{Kind: status.EventUnusable, Channel: c.Name, Text: c.Reason}, "err", err)
	}
}

// fix returns how the user can repair an unusable channel. A mirror whose daemon was killed while writing has a corrupt
// file, which the node replaces itself.
func (t *Table) fix(c *Channel, err error) string {
	if errors.Is(err, localach.ErrForeign) {
		return fmt.Sprintf("its own programs can use it: run the achd that belongs to them, and mirror achd://%s/%s elsewhere", t.cfg.Host, c.Name)
	}
	if errors.Is(err, localach.ErrDirty) && c.Tag != (localach.Tag{}) {
		return "it is a mirror, and is being repaired: its file is made again as soon as its origin sends"
	}
	return fmt.Sprintf("end the programs that use it, then `achbridge channel rm %s`: its publisher creates it again", c.Name)
}
