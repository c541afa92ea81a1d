package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"achbridge/bridge/status"
)

// Events returns what happened after event number after, 0 being before the first.
// It waits for news until ctx ends, then the list is empty; an error is that the
// node has ended. The newest 512 are kept: who asks too late is told how many it
// missed.
func (n *Node) Events(ctx context.Context, after uint64) (status.EventList, error) {
	for {
		list, missed, more := n.events.Since(after)
		l := status.EventList{Run: fmt.Sprintf("%016x", n.run), Missed: missed, Events: list}
		if len(list) > 0 {
			return l, nil
		}
		l.Events = []status.Event{}
		select {
		case <-more:
		case <-ctx.Done():
			return l, nil
		case <-n.ended:
			return l, fmt.Errorf("events: the daemon has ended: %w", net.ErrClosed)
		}
	}
}

// Tell logs a message and keeps e among the events of the node, whose Seq and Time
// it sets. args are further attributes of the log line.
func (n *Node) Tell(level slog.Level, message string, e status.Event, args ...any) {
	n.events.Tell(level, message, e, args...)
}
