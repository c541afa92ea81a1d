package bridge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"achbridge/bridge/status"
	"achbridge/localach"
)

// checkedAtOnce is how many channels without readers are checked in one tick. Each check is a
// system call.
const checkedAtOnce = 2000

// spread is how long to wait until a channel without readers is checked again.
func (n *Node) spread() time.Duration {
	rounds := time.Duration(len(n.locals) / checkedAtOnce)
	return rounds*tick/2 + rand.N(rounds*tick+1)
}

// lookAtLocals finds channels whose files have changed since they were opened.
func (n *Node) lookAtLocals() {
	now := n.now()
	for name, l := range n.locals {
		if l.ch != nil && now < l.check && !l.copies.Used() || l.left && n.opened >= n.mayOpen {
			continue
		}
		l.check = now + n.spread()
		if l.due(now) {
			n.localChanged(name)
		}
	}
}

// shut closes a channel of the table, if it is open.
func (n *Node) shut(l *local) {
	if l.ch == nil {
		return
	}
	l.close()
	l.ch = nil
	n.opened--
}

// leaveOut closes a channel that was opened although there are too many. It is tried again when others are gone.
func (n *Node) leaveOut(l *local) {
	n.shut(l)
	l.left, l.cause, l.again = true, status.CauseLimit, n.now()+openAgain
	l.reason = fmt.Sprintf("too many channels: %d are offered already; remove some (achbridge channel rm)", n.mayOpen)
	n.tellLeftOut(l.name, l.reason)
}

// tellLeftOut logs why a channel is not offered, not too often.
func (n *Node) tellLeftOut(name, why string) {
	n.warnings.warn("channel left out", status.Event{Kind: status.EventRefused, Channel: name, Text: why}, "cause", why)
}

// watch follows the channel directory.
func (n *Node) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := n.cfg.Source.Changes(ctx, func(e localach.Event) {
			switch e.Kind {
			case localach.Polling, localach.Notified:
				n.call(func() { n.noticesBy(e) })
				return
			case localach.Omitted:
				n.call(func() { n.tellLeftOut(e.Name, "too many channels; remove some (achbridge channel rm)") })
				return
			}
			if wait := restAfter(n.changeLocal(e.Name)); wait > 0 {
				pause(ctx, wait)
			}
		})
		if ctx.Err() != nil {
			return
		}
		n.log.Error("watching channels failed, trying again", "dir", string(n.cfg.Dir), "err", err)
		pause(ctx, time.Second)
	}
}

// noticesBy keeps whether the kernel reports changes of the channel directory.
func (n *Node) noticesBy(e localach.Event) {
	if n.noInotify = ""; e.Err != nil {
		n.noInotify = e.Err.Error()
		n.log.Warn("no inotify, looking for new channels four times a second", "err", e.Err)
		return
	}
	n.log.Info("inotify is back", "dir", string(n.cfg.Dir))
}

// slowChange is how long the node may take for a changed channel without a pause after it.
const slowChange = 5 * time.Millisecond

// restAfter is the pause before the next change of the channel directory, after one that took
// a while. Without it a huge channel that is replaced all the time would keep the node busy.
func restAfter(took time.Duration) time.Duration {
	if took < slowChange {
		return 0
	}
	return rest(took)
}

// changeLocal has the node look at a channel, and returns how long that took it.
func (n *Node) changeLocal(name string) (took time.Duration) {
	n.call(func() {
		began := n.now()
		n.localChanged(name)
		took = n.now() - began
	})
	return took
}
