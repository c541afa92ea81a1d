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

// Channel is one channel of this host that peers may be allowed to read. Only its Table writes the fields.
type Channel struct {
	Name     string
	Ring     *localach.Channel // nil when it cannot be used; links may use it too
	Copies   *ring.Snapshots   // copies of its large frames
	Tag      localach.Tag      // tag of the mirror that it is; zero for others
	IsMirror bool              // a mirror by its tag, or an adopted channel that a mirror writes into
	Reason   string            // why it is not offered to all peers; empty if it is
	Cause    status.Cause      // the cause of Reason
	Layout   *layouts.Rule     // layout of its frames; nil if none is known here, or for a mirror

	retryAt   time.Duration     // when to try again to open it; 0 for never
	checkAt   time.Duration     // when to check again that its file has not changed
	isOmitted bool              // it is not open because too many are
	before    *localach.Channel // closed; the channel whose file a program is replacing, nil for none

	largest   int           // bytes of the largest frame seen, if above the nominal size
	largestAt time.Duration // when the ring was last searched for it; 0 for never
}

// IsOpen reports whether there is a channel that can be read.
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

// isDue reports whether to open the channel again: its file has changed, or it could not be
// used and it is time for another try.
func (c *Channel) isDue(now time.Duration) bool {
	if c.IsOpen() {
		return c.Ring.Check() != nil
	}
	return c.retryAt != 0 && now >= c.retryAt
}

// Status returns the channel's status.
func (c *Channel) Status() status.Local {
	s := status.Local{Channel: c.Name, Exported: c.IsOpen() && c.Reason == "", Reason: c.Reason, Cause: c.Cause}
	if c.IsOpen() {
		g := c.Ring.Geometry()
		s.FrameCount, s.FrameSize, s.Seq = g.FrameCount, g.FrameSize, c.Ring.LastSeq()
	}
	return s
}

const (
	// retryAfter is how often a channel that cannot be used is tried again.
	retryAfter = time.Second
	// sizeAgain is how long the size of a channel's largest frame is kept before the ring is
	// searched again.
	sizeAgain = time.Second
)

// LargestFrame returns the size of the largest frame seen in an open channel, in bytes; 0 if none
// was above the nominal size.
func (c *Channel) LargestFrame(now time.Duration) int {
	if c.largestAt == 0 || now >= c.largestAt+sizeAgain {
		c.largestAt = max(now, 1)
		if n := min(c.Ring.LargestFrame(), wire.MaxFrame); n > c.Ring.Geometry().FrameSize {
			c.largest = max(c.largest, n)
		}
	}
	return c.largest
}

// find returns a channel as it is now, open or with the reason why it is not offered; nil if it does not exist.
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
	found, err := t.open(name, old)
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

// open opens a channel so that its epoch differs from the one before when
// the same file was initialised again in place.
func (t *Table) open(name string, old *Channel) (*localach.Channel, error) {
	switch {
	case old == nil:
	case old.before != nil:
		return old.before.ReopenReinitialised()
	case old.IsOpen() && errors.Is(old.Ring.Check(), localach.ErrReinitialised):
		return old.Ring.Reopen()
	}
	return t.cfg.Dir.TryOpen(name)
}

// judge decides whether a channel that was opened is offered.
func (t *Table) judge(c *Channel, found *localach.Channel, facts Facts) *Channel {
	_, meta := mirror.MetaOf(c.Name, c.Tag)
	c.IsMirror = c.Tag != (localach.Tag{}) && !meta || facts.IsMirror
	why := mirror.Unsendable(found.Geometry())
	switch {
	case meta && !facts.IsNamed:
		c.refuse("", "it tells of a mirror here, by this host's clock; only an --export of exactly this name offers it")
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

// fail records why a channel cannot be used, and when to try again. It logs a reason that is new.
func (t *Table) fail(c, old *Channel, err error) {
	unready := errors.Is(err, localach.ErrHalfCreated) || errors.Is(err, localach.ErrTruncated) // libach is creating it
	if errors.Is(err, localach.ErrForeign) || errors.Is(err, localach.ErrCorrupt) && !unready {
		err = fmt.Errorf("%w; %s", err, t.fix(c, err))
	}
	c.refuse(mirror.CauseOf(err), err.Error())
	c.retryAt = t.cfg.Now() + retryAfter + t.spread()
	if errors.Is(err, fs.ErrPermission) {
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

// fix returns what to do about a channel that the node cannot use. A mirror whose file is corrupt, since its daemon was
// killed while it wrote, needs nothing: the node replaces its file.
func (t *Table) fix(c *Channel, err error) string {
	if errors.Is(err, localach.ErrForeign) {
		return fmt.Sprintf("its own programs can use it: run the achd that belongs to them, and mirror achd://%s/%s elsewhere", t.cfg.Host, c.Name)
	}
	if errors.Is(err, localach.ErrDirty) && c.Tag != (localach.Tag{}) {
		return "it is a mirror, and is being healed: its file is made anew as soon as its origin is heard"
	}
	return fmt.Sprintf("end the programs that use it, then `achbridge channel rm %s`: its publisher creates it again", c.Name)
}
