package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"achbridge/bridge/lock"
	"achbridge/wire"

	"golang.org/x/time/rate"
)

const (
	maxControlBacklog = 4 << 20 // bytes that a peer may leave unread before the link ends
	byeTimeout        = 300 * time.Millisecond
)

var errUnread = errors.New("the peer does not read its control stream")

// controlQueue has the control messages of a link that are not written yet. It is safe for
// concurrent use and never blocks.
type controlQueue struct {
	mu         lock.Mutex[lock.Leaf] // guards the fields below
	messages   [][]byte
	bytes      int
	hasBye     bool // the last message is a Bye
	wake       chan struct{}
	byeWritten chan struct{} // closed when a Bye was written
}

func newControlQueue() *controlQueue {
	return &controlQueue{wake: make(chan struct{}, 1), byeWritten: make(chan struct{})}
}

// add queues a message. It returns false if the queue then exceeds maxControlBacklog.
func (q *controlQueue) add(message []byte, isBye bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = append(q.messages, message)
	q.bytes += len(message)
	q.hasBye = q.hasBye || isBye
	notify(q.wake)
	return q.bytes <= maxControlBacklog
}

// take removes and returns all messages.
func (q *controlQueue) take() (messages [][]byte, hasBye bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	messages, q.messages, q.bytes = q.messages, nil, 0
	return messages, q.hasBye
}

// unread returns the number of queued bytes. The bytes that are being written do not count.
func (q *controlQueue) unread() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// bye informs the peer that this node leaves, and closes the session. It waits at most byeTimeout
// until the message is written.
func (l *link) bye(reason string) {
	l.send(wire.Bye{Reason: reason})
	t := time.NewTimer(byeTimeout)
	defer t.Stop()
	select {
	case <-l.out.byeWritten:
	case <-l.s.Done():
	case <-t.C:
	}
	l.s.Close(reason)
}

// send queues a control message. It never blocks; if the peer does not read its messages, send
// ends the link.
func (l *link) send(m wire.Message) {
	b, err := wire.AppendMessage(nil, m)
	if err != nil {
		l.n.cfg.Log.Error("control message cannot be sent", "peer", l.host, "err", err)
		return
	}
	if _, isBye := m.(wire.Bye); !l.out.add(b, isBye) {
		l.cancel(errUnread) // ends the link's goroutines, and so the link
	}
}

// writeControl writes queued control messages until the link ends.
func (l *link) writeControl(ctx context.Context) error {
	for {
		messages, hasBye := l.out.take()
		for _, b := range messages {
			if _, err := l.s.Control().Write(b); err != nil {
				return fmt.Errorf("control stream: %w", err)
			}
		}
		if hasBye {
			close(l.out.byeWritten)
			<-ctx.Done() // the reason is sent when the session is closed
			return ctx.Err()
		}
		if messages != nil {
			continue
		}
		select {
		case <-l.out.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unheard returns the reason why the control stream ended.
func unheard(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("control stream: the peer has ended it%.0w", err)
	}
	return fmt.Errorf("control stream: %w", err)
}

// readControl reads control messages and hands them to the node's goroutine. While the link is a spare,
// hear handles only stamps and the first message, which is the Hello.
func (l *link) readControl(ctx context.Context) error {
	var head [4]byte
	greeted := false
	limiter := rate.NewLimiter(rate.Every(controlPeriod), controlBurst)
	for {
		if _, err := io.ReadFull(l.s.Control(), head[:]); err != nil {
			return unheard(err)
		}
		size, err := wire.MessageSize(head)
		if err != nil {
			return err
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(l.s.Control(), body); err != nil {
			return unheard(err)
		}
		came := l.n.now()
		m, err := wire.ParseMessage(body)
		if err != nil {
			return err
		}
		if err := limiter.WaitN(ctx, 1+size/controlUnit); err != nil { // the stream's flow control slows the peer down too
			return err
		}
		if stamp, ok := m.(wire.Stamp); ok { // stamps bypass the node's queue, whose delay would count as the path's
			l.stamped(stamp, came)
			continue
		}
		if greeted { // a spare handles only stamps until it becomes the link
			select {
			case <-l.lifecycle.promoted:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		greeted = true
		done := make(chan error, 1)
		l.n.loop.post(func() { done <- l.n.handle(l, m) })
		// One message at a time: a peer cannot fill the node's queue.
		select {
		case err = <-done:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.n.loop.done:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// unwelcome is an error that ends a link to a peer that cannot be served. Its text is sent to the
// peer, for the operators on both sides.
type unwelcome string

func (u unwelcome) Error() string { return string(u) }

// lastWord returns the reason to send to the peer when its link ends because of err, "" for none.
func lastWord(err error) string {
	if u, ok := errors.AsType[unwelcome](err); ok {
		return string(u)
	}
	return ""
}
