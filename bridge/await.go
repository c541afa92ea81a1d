package bridge

import "context"

// Await calls done at once, and again after each turn of the node in which something may have changed, until done
// returns true, ctx ends or the node does. done may ask the node: StatusNow, Channels and Wish change nothing.
func (n *Node) Await(ctx context.Context, done func() bool) {
	for {
		changed := n.nextChange()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-n.ended:
			return
		}
	}
}

// nextChange returns a channel that is closed after the next turn of the node in which something may have changed.
func (n *Node) nextChange() (next <-chan struct{}) {
	n.ask(func() {
		if n.next == nil {
			n.next = make(chan struct{})
		}
		next = n.next
	})
	return next
}

// ask is call for an f that changes nothing, so that it wakes no caller of Await.
func (n *Node) ask(f func()) bool {
	return n.call(func() { f(); n.changes-- })
}

// wakeAwaiting ends a turn of the node. It wakes the callers of Await if the turn may have changed something.
func (n *Node) wakeAwaiting() {
	if n.changes > 0 && n.next != nil {
		close(n.next)
		n.next = nil
	}
	n.changes = 0
}
