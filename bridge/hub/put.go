package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// maxUnacked is the maximum number of a channel's frames that the hub has not acknowledged.
	// With fewer the link would be idle for a round trip after each frame; more would queue.
	maxUnacked = 2
	// ackLimit is the timeout for the acknowledgement of a frame.
	ackLimit = 5 * time.Second
	// maxTrip limits the round trip from which the spacing of frames is computed.
	maxTrip = time.Second
)

var errNoAck = errors.New("hub: it did not acknowledge a frame in 5 s")

// publisher publishes the frames of one channel of this host. Frames sent on former connections do not
// count, since those have ended and send nothing more.
type publisher struct {
	channel *Channel

	mu   sync.Mutex
	pair *connPair
	free chan struct{} // semaphore with a slot for each unacknowledged frame
	made bool          // the stream exists, as far as is known
	put  time.Time     // when the last frame was sent
	trip time.Duration // average time from sending to acknowledgement
}

// Room blocks until a frame of size bytes could be sent at once, so that the caller can copy the
// newest one then. Without a connection to the hub it fails at once.
func (ch *Channel) Room(ctx context.Context, size int) error {
	l, err := ch.client.connected()
	if err != nil {
		return err
	}
	leave, err := ch.put.enter(ctx, l, size)
	if err == nil {
		leave.all()
	}
	return err
}

// Put stores b as the channel's newest frame, after those of earlier calls. It blocks while two
// frames are unacknowledged or the connection is busy; see Room. When it returns, the caller may
// reuse b. acked then receives the hub's answer: nil, or the reason why b may not be stored. It
// arrives within 5 s, at the latest when the connection ends. Without a connection Put fails at
// once: no frame is kept to be sent later.
func (ch *Channel) Put(ctx context.Context, b []byte) (acked <-chan error, err error) {
	l, err := ch.client.connected()
	if err != nil {
		return nil, err
	}
	if most := l.maxPayload(); len(b) > most {
		return nil, fmt.Errorf("frame of %d bytes: %w, %d bytes in one message: raise max_payload in the hub's configuration", len(b), ErrTooLarge, most)
	}
	if err := ch.put.make(ctx, l); err != nil {
		return nil, err
	}
	leave, err := ch.put.enter(ctx, l, len(b))
	if err != nil {
		return nil, err
	}
	return ch.put.publish(l, leave, b)
}

// places are the semaphores that a frame holds: free until it is acknowledged, and turn until it
// is written.
type places struct{ free, turn chan struct{} }

func (p places) all() { <-p.turn; <-p.free }

// enter waits until a frame may be sent.
func (p *publisher) enter(ctx context.Context, l *connPair, size int) (places, error) {
	h := l.conn(size)
	leave := places{free: p.on(l), turn: h.turn}
	if err := p.wait(ctx, l, leave.free, nil); err != nil {
		return leave, err
	}
	err := p.space(ctx, l)
	if err == nil {
		err = p.wait(ctx, l, leave.turn, nil)
	}
	if err != nil {
		<-leave.free
		return leave, err
	}
	if err := l.flow.wait(ctx.Err, h.socket, size); err != nil {
		leave.all()
		return leave, err
	}
	return leave, nil
}

// space waits until half a round trip has passed since the last frame. If two frames are sent
// together, the second one waits behind the first, and so do all that follow.
func (p *publisher) space(ctx context.Context, l *connPair) error {
	p.mu.Lock()
	wait := p.trip/maxUnacked - time.Since(p.put)
	p.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	return p.wait(ctx, l, nil, time.After(wait))
}

// left records that a frame is sent now.
func (p *publisher) left() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put = time.Now()
	return p.put
}

// acknowledged updates the average round trip with a frame that was sent at then.
func (p *publisher) acknowledged(then time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	trip := min(time.Since(then), maxTrip)
	if p.trip == 0 {
		p.trip = trip
	}
	p.trip += (trip - p.trip) / 8
}

// wait blocks until it has a place in the semaphore or due arrives, whichever is not nil.
func (p *publisher) wait(ctx context.Context, l *connPair, semaphore chan<- struct{}, due <-chan time.Time) error {
	select {
	case semaphore <- struct{}{}:
		return nil
	case <-due:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.channel.closed:
		return errClosed
	case <-l.done:
		return errNotConnected(l.reason())
	}
}

// on makes l the present pair, and returns its semaphore for unacknowledged frames.
func (p *publisher) on(l *connPair) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pair != l {
		p.pair, p.free, p.made, p.trip = l, make(chan struct{}, maxUnacked), false, 0
	}
	return p.free
}

// publish sends b. A goroutine of the pair writes a large frame.
func (p *publisher) publish(l *connPair, leave places, b []byte) (<-chan error, error) {
	h := l.conn(len(b))
	f := &unackedFrame{conn: h, acked: make(chan error, 1), free: leave.free}
	f.mu.Lock()
	left := p.left()
	f.inbox = h.expect(func(m *nats.Msg) {
		p.acknowledged(left)
		f.settle(p.word(l, m))
	})
	f.late = time.AfterFunc(ackLimit, func() { f.settle(errNoAck) })
	f.mu.Unlock()
	write := func(b []byte) {
		defer func() { <-leave.turn }()
		if err := h.write(FrameSubject(p.channel.host, p.channel.name), f.inbox, b); err != nil {
			f.settle(errNotConnected(err))
		}
	}
	if h.small {
		l.flow.put()
		write(b)
		return f.acked, nil
	}
	copied := bytes.Clone(b)
	if !l.begin(func() { write(copied) }) {
		<-leave.turn
		f.settle(errNotConnected(l.reason()))
	}
	return f.acked, nil
}

// unackedFrame is an unacknowledged frame.
type unackedFrame struct {
	conn  *hubConn
	inbox string
	acked chan error
	free  chan struct{}

	mu      sync.Mutex
	late    *time.Timer
	settled bool
}

// settle reports the outcome of the frame. Only the first outcome counts.
func (f *unackedFrame) settle(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.settled {
		return
	}
	f.settled = true
	f.late.Stop()
	f.conn.forget(f.inbox)
	f.acked <- err
	<-f.free
}

// word returns the hub's answer to a frame as an error, nil for an acknowledgement.
func (p *publisher) word(l *connPair, m *nats.Msg) error {
	if m == nil {
		return errNotConnected(l.reason())
	}
	if statusOf(m) == statusNobody {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.pair == l {
			p.made = false // the next put makes the stream
		}
		return errors.New("hub: the channel's stream no longer exists")
	}
	var answer struct {
		Stream string              `json:"stream"`
		Error  *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		return errors.New("hub: its answer to a frame is not that of a nats-server")
	case answer.Error != nil:
		return fmt.Errorf("hub: it did not store a frame: %w", serverError(answer.Error))
	case answer.Stream != StreamName(p.channel.host, p.channel.name):
		return fmt.Errorf("hub: stream %q, which achbridge did not make, takes the channel's frames: remove it there", answer.Stream)
	}
	return nil
}
