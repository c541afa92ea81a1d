package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"achbridge/wire"

	"golang.org/x/time/rate"
)

const (
	maxControlBacklog = 4 << 20 // bytes a peer may leave unread before the link ends
	byeTimeout        = 300 * time.Millisecond
)

var errUnread = errors.New("the peer does not read its control stream")

// bye tells the peer that this node leaves, and waits a moment until the message is written.
func (l *link) bye(reason string) {
	l.send(wire.Bye{Reason: reason})
	t := time.NewTimer(byeTimeout)
	defer t.Stop()
	select {
	case <-l.said:
	case <-l.s.Done():
	case <-t.C:
	}
	l.s.Close(reason)
}

// send queues a control message. It never blocks; a peer that does not read
// loses its link.
func (l *link) send(m wire.Message) {
	b, err := wire.AppendMessage(nil, m)
	if err != nil {
		l.n.log.Error("control message cannot be sent", "peer", l.host, "err", err)
		return
	}
	l.outMu.Lock()
	l.out = append(l.out, b)
	l.outB += len(b)
	_, bye := m.(wire.Bye)
	l.last = l.last || bye
	full := l.outB > maxControlBacklog
	l.outMu.Unlock()
	if full {
		l.cancel(errUnread) // its goroutines end and with them the link
		return
	}
	notify(l.outUp)
}

// tell writes queued control messages until the link ends.
func (l *link) tell(ctx context.Context) error {
	for {
		l.outMu.Lock()
		out, last := l.out, l.last
		l.out, l.outB = nil, 0
		l.outMu.Unlock()
		for _, b := range out {
			if _, err := l.s.Control().Write(b); err != nil {
				return fmt.Errorf("control stream: %w", err)
			}
		}
		if last {
			close(l.said)
			<-ctx.Done() // the end of the session carries the reason
			return ctx.Err()
		}
		if out != nil {
			continue
		}
		select {
		case <-l.outUp:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unheard says why nothing more is read from the control stream.
func unheard(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("control stream: the peer has ended it%.0w", err)
	}
	return fmt.Errorf("control stream: %w", err)
}

// hear reads control messages and hands them to the node's goroutine. While the link is a
// spare, it reads only the Hello.
func (l *link) hear(ctx context.Context) error {
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
		if err := limiter.WaitN(ctx, 1+size/controlUnit); err != nil { // the stream's flow control makes the peer wait too
			return err
		}
		if stamp, ok := m.(wire.Stamp); ok { // the node's queue would count as the way
			l.stamped(stamp, came)
			continue
		}
		if greeted { // a spare handles only stamps until it becomes the link
			select {
			case <-l.taken:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		greeted = true
		done := make(chan error, 1)
		l.n.post(func() { done <- l.n.handle(l, m) })
		// One message at a time: a peer cannot fill the node's queue.
		select {
		case err = <-done:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.n.ended:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// unwelcome ends a link to a peer that cannot be served. Its text is for the
// operators on both sides.
type unwelcome string

func (u unwelcome) Error() string { return string(u) }

// lastWord is the reason that the peer is told when its link ends because of err.
func lastWord(err error) string {
	if u, ok := errors.AsType[unwelcome](err); ok {
		return string(u)
	}
	return ""
}
