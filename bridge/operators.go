package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/operator"
	"achbridge/bridge/phases"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// lockTable has the operator locks of this host's channels. It belongs to the node's goroutine.
type lockTable struct {
	operator.Table
	keep func([]byte) error // stores the locks
	disk diskPhase
	wake chan struct{} // wakes watchLocks

	retryAt time.Duration // when to store the table again while the disk is behind

	suspended time.Duration // total time in suspend, at the last call of checkLocks
}

// diskPhase is the state of the stored locks compared with the table. Only the end of a lock may be stored later.
type diskPhase int

const (
	diskCurrent diskPhase = iota
	diskBehind            // the end of a lock could not be stored; the node tries again
)

var diskTransitions = phases.Transitions[diskPhase]{
	diskCurrent: {diskBehind},
	diskBehind:  {diskCurrent},
}

func (n *Node) newLockTable() lockTable {
	table, err := operator.Restore(n.cfg.Locks, n.cfg.Machine.Boot, n.clocks.sinceBoot())
	if err != nil {
		n.events.Record(slog.LevelWarn, "operator locks cannot be read, nobody holds one", status.Event{
			Kind: status.EventOperator, Text: "the stored locks cannot be read, so nobody holds one: " + err.Error(),
		}, "err", err)
	}
	keep := n.cfg.KeepLocks
	if keep == nil {
		keep = func([]byte) error { return errors.New("there is no state directory") }
	}
	return lockTable{Table: table, keep: keep, wake: make(chan struct{}, 1), suspended: n.clocks.mirror.Suspended()}
}

// store writes the locks of a table to the disk and makes it the present one. An error changes nothing.
func (t *lockTable) store(next operator.Table) error {
	if err := t.keep(next.Encode()); err != nil {
		return fmt.Errorf("the lock cannot be stored: %w", err)
	}
	t.Table = next
	diskTransitions.Move(&t.disk, diskCurrent)
	return nil
}

// holderOf returns the machine of l's peer, as a holder of locks.
func holderOf(l *link) operator.Holder {
	return operator.Holder{Host: l.host, Node: l.peer, Hardware: l.hello.machine.Hardware, Boot: l.hello.machine.Boot}
}

// lockRule returns the options of a channel's operator lock, nil if it has none.
func (n *Node) lockRule(channel string) *rule.Operator {
	_, g, _ := n.cfg.Accept.About(channel)
	return g.Operator
}

// lockError is the reason why the operator lock refuses a push or a request.
type lockError string

func (e lockError) Error() string { return string(e) }

// lockAllows returns an error if the channel of an offer has an operator lock that l's peer does not hold with the offer's
// generation.
func (n *Node) lockAllows(l *link, m wire.Offer) error {
	if n.lockRule(m.As) == nil {
		return nil
	}
	if err := knowsLocks(l); err != nil {
		return err
	}
	if !n.holdsLock(l, m.As) || n.locks.Get(m.As).Generation != m.Generation {
		return lockError(lockText(n.cfg.Host, n.holderFor(l, m.As), wallTime()))
	}
	return nil
}

// knowsLocks returns an error if the peer's achbridge is too old for operator locks, or does not name its machine.
func knowsLocks(l *link) error {
	switch {
	case !l.hello.knowsLocks:
		return errNoLocks(l.host)
	case l.hello.machine.Boot == Machine{}.Boot:
		return fmt.Errorf("%s does not name the boot of its kernel, so that a copy of it could take its place", l.host)
	}
	return nil
}

func errNoLocks(host string) error {
	return fmt.Errorf("the achbridge of %s does not know operator locks; update %s", host, host)
}

// rightFor returns the right with which l's peer may feed the mirror called name, which w requests. It returns false if
// the peer lacks the operator lock.
func (n *Node) rightFor(l *link, name string, w rule.Mirror) (operator.Right, bool) {
	if n.lockRule(name) == nil || !l.hasPushed(w) {
		return operator.Right{}, true
	}
	return n.locks.Get(name).Right(), n.holdsLock(l, name)
}

// holdsLock reports whether l's peer holds the operator lock of a channel.
func (n *Node) holdsLock(l *link, channel string) bool {
	held := n.locks.Get(channel)
	return held.Phase() != operator.Nobody && held.Holder == holderOf(l)
}

// hasPushed reports whether w is the request of an accepted push of l's peer.
func (l *link) hasPushed(w rule.Mirror) bool {
	for _, p := range l.offers.accepted {
		if p.Same(w) {
			return true
		}
	}
	return false
}

// lockAsked handles a peer's Take, Release or HolderQuery.
func (n *Node) lockAsked(l *link, m wire.Message) {
	n.checkLocks()
	var id uint32
	var re uint
	var channel string
	var err error
	switch m := m.(type) {
	case wire.Take:
		id, re, channel = m.ID, wire.TypeTake, m.Channel
		if err = l.mayChangeLock(n.now()); err == nil {
			err = n.lockTaken(l, m)
		}
	case wire.Release:
		id, re, channel = m.ID, wire.TypeRelease, m.Channel
		if err = l.mayChangeLock(n.now()); err == nil {
			err = n.lockReleased(l, m)
		}
	case wire.HolderQuery:
		id, re, channel = m.ID, wire.TypeHolderQuery, m.Channel
		_, err = n.mayAskLock(l, channel)
	}
	if err == nil {
		answer := n.holderFor(l, channel)
		answer.ID = id
		l.send(answer)
		return
	}
	code := wire.CodeForbidden
	if _, isHeld := errors.AsType[*operator.HeldError](err); isHeld || errors.Is(err, operator.ErrNobody) {
		code, err = wire.CodeHeld, lockError(lockText(n.cfg.Host, n.holderFor(l, channel), wallTime()))
	}
	l.send(wire.Refused{ID: id, Re: re, Code: code, Text: wire.Text(err.Error())})
}

// mayChangeLock returns an error if l's peer has sent too many requests, each of which may wait for the disk.
func (l *link) mayChangeLock(now time.Duration) error {
	if _, ok := l.offers.lockRequests.Cause(now); !ok {
		return errors.New("too many requests for operator locks; try again in some seconds")
	}
	return nil
}

// mayAskLock returns the rule that lets l's peer push into a channel. It returns an error if there is none, or if the
// channel has no operator lock.
func (n *Node) mayAskLock(l *link, channel string) (rule.Grant, error) {
	g, err := n.cfg.Accept.For(channel, l.host)
	switch {
	case errors.Is(err, rule.ErrNoGrant):
		return g, fmt.Errorf("%s accepts no pushes into %s: no accept rule names it", n.cfg.Host, channel)
	case err != nil:
		return g, fmt.Errorf("%s does not accept %s: %w", n.cfg.Host, channel, err)
	case g.Operator == nil:
		return g, fmt.Errorf("%s has no operator lock: %s of %s does not set operator", channel, cmp.Or(g.From, "the accept rule"), n.cfg.Host)
	}
	return g, knowsLocks(l)
}

func (n *Node) lockTaken(l *link, m wire.Take) error {
	g, err := n.mayAskLock(l, m.Channel)
	if err != nil {
		return err
	}
	if err := g.MayTake(l.host, m.Force); err != nil {
		return fmt.Errorf("%s: %w", n.cfg.Host, err)
	}
	c, err := n.locks.Take(n.clocks.sinceBoot(), operator.Request{Channel: m.Channel, By: holderOf(l), For: m.For, Force: m.Force})
	if err != nil {
		return err
	}
	return n.changeLock(c)
}

func (n *Node) lockReleased(l *link, m wire.Release) error {
	if _, err := n.mayAskLock(l, m.Channel); err != nil {
		return err
	}
	var to operator.Holder
	if m.To != "" {
		next := n.linkOf(m.To)
		if next == nil || !next.hello.isReceived {
			return fmt.Errorf("%s has no link to %s", n.cfg.Host, m.To)
		}
		g, err := n.cfg.Accept.For(m.Channel, next.host)
		if err = cmp.Or(err, knowsLocks(next)); err == nil {
			err = g.MayTake(next.host, false)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", n.cfg.Host, err)
		}
		to = holderOf(next)
	}
	c, err := n.locks.Release(n.clocks.sinceBoot(), m.Channel, holderOf(l), to)
	if err != nil {
		return err
	}
	return n.changeLock(c)
}

// changeLock changes a lock in this order: it revokes the right of the former holder, stores the change, has the safe
// frame put, and only then lets the next holder push. If the change cannot be stored, the former holder keeps its right,
// unless its lock has ended.
func (n *Node) changeLock(c operator.Change) error {
	channel := c.After.Channel
	if !c.IsHandover() && c.Before.End == c.After.End {
		return nil // the holder has taken it again
	}
	m := n.mirrors.byName[channel]
	isFed := m != nil && m.grant != operator.Grant{} && m.grant == c.Before.Right().Grant
	if isFed && c.IsHandover() {
		m.Permit(operator.Right{})
	}
	next := n.locks.With(c)
	switch err := n.locks.store(next); {
	case err != nil && c.After.Phase() != operator.Nobody:
		if isFed {
			m.Permit(c.Before.Right())
		}
		return err
	case err != nil:
		n.locks.Table = next
		diskTransitions.Move(&n.locks.disk, diskBehind)
		n.cfg.Log.Error("end of an operator lock cannot be stored, trying again", "channel", channel, "err", err)
	}
	if isFed && !c.IsHandover() {
		m.Permit(c.After.Right())
	}
	n.events.Record(slog.LevelInfo, "operator lock changed", status.Event{
		Kind: status.EventOperator, Host: cmp.Or(c.After.Holder.Host, c.Before.Holder.Host), Mirror: channel, Text: c.Why,
	}, "why", c.Why, "generation", c.After.Generation)
	notify(n.locks.wake)
	n.bindMuxes() // before another holder's frames
	n.endUnpermitted()
	for _, l := range n.links {
		n.judgePushes(l)
		n.sendHolder(l, channel)
	}
	n.loop.changed()
	return nil
}

// endUnpermitted ends the mirrors that pushes without the operator lock have made, and those of a lock that the rules do
// not have any more. Their safe frames are put first.
func (n *Node) endUnpermitted() {
	for name, m := range n.mirrors.byName {
		isUnlocked := m.grant == operator.Grant{} && n.lockRule(name) != nil
		if m.isPushed && (isUnlocked || m.grant != n.locks.Get(name).Right().Grant) {
			_ = n.endMirror(m, Keep) // only Remove returns errors
		}
	}
}

// sendHolder informs l's peer about the holder of a channel that it has offered to push.
func (n *Node) sendHolder(l *link, channel string) {
	for _, p := range l.offers.accepted {
		if p.As == channel {
			l.send(n.holderFor(l, channel))
			return
		}
	}
	for _, m := range l.offers.refused {
		if m.As == channel && l.hello.knowsLocks {
			l.send(n.holderFor(l, channel))
			return
		}
	}
}

// holderFor returns the message for l's peer about the holder of a channel.
func (n *Node) holderFor(l *link, channel string) wire.Holder {
	held, now := n.locks.Get(channel), n.clocks.sinceBoot()
	m := wire.Holder{Channel: channel}
	if held.Phase() == operator.Nobody {
		return m
	}
	m.Host, m.Generation, m.InGrace = held.Holder.Host, held.Generation, held.Phase() == operator.InGrace
	m.HeldFor = max(0, now-held.TakenAt)
	if held.End != 0 {
		m.Left = max(1, held.End-now)
	}
	m.Yours = l != nil && held.Holder == holderOf(l)
	return m
}

// lockText describes the holder of host/channel for operators, at the time now.
func lockText(host string, m wire.Holder, now time.Time) string {
	take := "; take it: achbridge take " + host + "/" + m.Channel
	if m.Host == "" {
		return "nobody holds it" + take
	}
	at := func(d time.Duration) string { return now.Add(d).UTC().Format("15:04:05 UTC") }
	text := m.Host + " holds it since " + at(-m.HeldFor)
	if m.Left != 0 {
		text += ", until " + at(m.Left)
	}
	if m.InGrace {
		text += ", but nothing comes from it now"
	}
	if m.Yours {
		return text
	}
	return text + take + " --force"
}

// errSafeFrame means that the next holder's push has to wait.
var errSafeFrame = fmt.Errorf("the safe frame after the former holder cannot be put yet: %w", localach.ErrBusy)

// lockStoreRetry is the delay before the end of a lock is stored again.
const lockStoreRetry = time.Second

// lockEvery is the interval at which the node looks for packets of the holders, and for locks that end.
const lockEvery = 50 * time.Millisecond

// watchLocks calls checkLocks until ctx ends, while it has work.
func (n *Node) watchLocks(ctx context.Context) {
	for ctx.Err() == nil {
		var isNeeded bool
		n.loop.ask(func() {
			if isNeeded = len(n.locks.List()) > 0 || n.locks.disk == diskBehind; isNeeded {
				n.checkLocks()
			}
		})
		if isNeeded {
			pause(ctx, lockEvery)
			continue
		}
		select {
		case <-n.locks.wake:
		case <-ctx.Done():
		}
	}
}

// checkLocks ends the locks whose end or grace is over. If this host was suspended, that time counts even if packets of the
// holder arrive again.
func (n *Node) checkLocks() {
	now, suspended := n.clocks.sinceBoot(), n.clocks.mirror.Suspended()
	if clock.Slept(n.locks.suspended, suspended) {
		n.expireLocks(now)
	}
	n.locks.suspended = suspended
	for _, l := range n.linksAndSpares() {
		if h := holderOf(l); l.hello.isReceived && n.locks.IsHolder(h) {
			n.locks.Received(now-(n.now()-l.heardAt(n.now())), h)
		}
	}
	n.expireLocks(now)
	if n.locks.disk == diskBehind && n.now() >= n.locks.retryAt {
		n.locks.retryAt = n.now() + lockStoreRetry
		_ = n.locks.store(n.locks.Table) // changeLock has logged the error
	}
}

// expireLocks ends the locks that are over at now.
func (n *Node) expireLocks(now time.Duration) {
	for _, c := range n.locks.Expire(now, func(l operator.Lock) time.Duration {
		g, err := n.cfg.Accept.For(l.Channel, l.Holder.Host)
		if err != nil || g.Operator == nil || g.MayTake(l.Holder.Host, false) != nil {
			return 0
		}
		return g.Operator.EffectiveGrace()
	}) {
		_ = n.changeLock(c) // the end of a lock cannot fail
	}
}

// showHolder adds the holder of the operator lock to the status of a mirror that a push of the holder feeds.
func (n *Node) showHolder(m *binding, s *status.Mirror) {
	if held := n.locks.Get(m.Name); m.isPushed && held.Generation != 0 && s.Reason == "" {
		s.Reason = held.Holder.Host + " holds the operator lock"
	}
}
