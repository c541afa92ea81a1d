package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// smallFrame is the largest frame, in bytes, that uses the connection of control messages.
	smallFrame = 4096
	// inboxMessages limits the messages that wait for their handler. Handlers never block.
	inboxMessages = 256
	inboxBytes    = 4 * maxMessage
	// askLimit is the timeout for an answer of the hub, and for its report that a fetch has expired.
	askLimit = 2 * time.Second
)

// hubConn is one of the two connections to the hub.
type hubConn struct {
	client *Client
	small  bool
	nc     *nats.Conn
	socket *socket
	inbox  string        // prefix of the subjects of answers
	turn   chan struct{} // semaphore with one slot, for the frame that is being written

	pingSentAt atomic.Int64 // when the hub was asked for a sign of life, by flow.now; 0 means that the answer has arrived

	mu            sync.Mutex
	waiting       map[string]func(*nats.Msg) // handlers of answers, by the last token of the subject
	next          uint64
	lastError     error         // last error that the hub reported
	errorReported chan struct{} // closed when the hub reports another error
	done          chan struct{}
	err           error
}

// open subscribes to answers.
func (h *hubConn) open() error {
	h.inbox = InboxPrefix(h.client.credentials.Host) + "." + rand.Text()[:10]
	_, err := h.subscribe(h.inbox+".*", h.answer)
	if last := h.nc.LastError(); err != nil && last != nil {
		return last
	}
	return err
}

// subscribe makes the library call take for each message, one after the other. take must not
// block.
func (h *hubConn) subscribe(subject string, take func(*nats.Msg)) (*nats.Subscription, error) {
	sub, err := h.nc.Subscribe(subject, take)
	if err != nil {
		return nil, err
	}
	return sub, sub.SetPendingLimits(inboxMessages, inboxBytes)
}

// listen is subscribe for messages that keep the subject to which they were published, as frames
// do.
func (h *hubConn) listen(take func(*nats.Msg)) (*nats.Subscription, error) {
	h.mu.Lock()
	h.next++
	subject := h.inbox + ".pull." + strconv.FormatUint(h.next, 36)
	h.mu.Unlock()
	return h.subscribe(subject, take)
}

func (h *hubConn) answer(m *nats.Msg) {
	word := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	h.mu.Lock()
	take := h.waiting[word]
	h.mu.Unlock()
	if take != nil {
		take(m)
	}
}

// expect makes answer call take for each message to the returned subject, until forget. take gets
// nil when the connection ends.
func (h *hubConn) expect(take func(*nats.Msg)) (subject string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		return h.inbox + ".0" // the connection has ended, so publishing fails
	}
	h.next++
	word := strconv.FormatUint(h.next, 36)
	h.waiting[word] = take
	return h.inbox + "." + word
}

func (h *hubConn) forget(subject string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, subject[strings.LastIndexByte(subject, '.')+1:])
}

// ask publishes a request and waits for the answer. The error is nats.ErrNoResponders if there is
// no responder.
func (h *hubConn) ask(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	got := make(chan *nats.Msg, 1)
	inbox := h.expect(func(m *nats.Msg) {
		if m == nil {
			return
		}
		select {
		case got <- m:
		default:
		}
	})
	defer h.forget(inbox)
	errorReported, _ := h.lastErrorState()
	if err := h.nc.PublishRequest(subject, inbox, body); err != nil {
		return nil, errNotConnected(err)
	}
	for {
		select {
		case m := <-got:
			if statusOf(m) == statusNobody {
				return nil, nats.ErrNoResponders
			}
			return m, nil
		case <-h.done:
			return nil, errNotConnected(h.reason())
		case <-errorReported:
			var said error
			if errorReported, said = h.lastErrorState(); errors.Is(said, nats.ErrPermissionViolation) && strings.Contains(said.Error(), subject) {
				return nil, said
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("hub: no answer to %s: %w", subject, ctx.Err())
		}
	}
}

// The statuses of messages that a nats-server sends without data.
const (
	statusNobody  = "503"
	statusExpired = "408"
)

// statusOf returns the status of a message without data, "" for a message with data.
func statusOf(m *nats.Msg) string {
	if len(m.Data) > 0 {
		return ""
	}
	return m.Header.Get("Status")
}

func (h *hubConn) reportError(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastError = err
	close(h.errorReported)
	h.errorReported = make(chan struct{})
}

// lastErrorState returns the last error that the hub reported, and a channel that is closed at the next
// one.
func (h *hubConn) lastErrorState() (<-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.errorReported, h.lastError
}

// end ends the connection at once and drops unsent data. The first reason stays.
func (h *hubConn) end(reason error) {
	h.mu.Lock()
	select {
	case <-h.done:
		h.mu.Unlock()
		return
	default:
	}
	if h.err = reason; reason == nil {
		h.err = errors.New("the hub closed the connection")
	}
	close(h.done)
	nc, socket, waiting := h.nc, h.socket, h.waiting
	h.waiting = nil
	h.mu.Unlock()
	if socket != nil {
		socket.Close() // before nc.Close, since the library would send its buffer
	}
	if nc != nil {
		nc.Close()
	}
	for _, take := range waiting {
		take(nil)
	}
}

// write publishes a message. It returns when the kernel has all of it, or when the connection has
// ended.
func (h *hubConn) write(subject, reply string, b []byte) error {
	if err := h.nc.PublishRequest(subject, reply, b); err != nil {
		return err
	}
	for !h.small {
		left, err := h.nc.Buffered() // waits while the library writes
		if err != nil || left == 0 {
			return nil
		}
		select {
		case <-h.done:
			return nil
		case <-time.After(pollEvery):
		}
	}
	return nil
}

func (h *hubConn) reason() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// ping requests a sign of life whenever the connection was silent for a while, until the
// connection ends.
func (h *hubConn) ping(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-h.done:
			return
		case <-tick.C:
		}
		now := h.socket.flow.now()
		if now-time.Duration(h.socket.lastReceivedAt.Load()) < every/2 {
			continue
		}
		h.pingSentAt.CompareAndSwap(0, int64(now)) // the answer to an earlier request may be overdue already
		if err := h.nc.FlushTimeout(time.Minute); err == nil {
			h.pingSentAt.Store(0)
		}
	}
}

// silent returns how long a sign of life from the hub has been overdue.
func (h *hubConn) silent() time.Duration {
	h.socket.flow.unacked()
	asked := h.pingSentAt.Load()
	if asked == 0 {
		return 0
	}
	return h.socket.flow.now() - time.Duration(max(asked, h.socket.lastReceivedAt.Load()))
}
