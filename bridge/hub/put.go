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
)

const (
	// maxUnacked is how many frames of a channel the hub has not acknowledged, at most. With fewer the link
	// stands idle for a round trip after each frame; more would wait in line.
	maxUnacked = 2
	// ackLimit is how long the hub may take to acknowledge a frame.
	ackLimit = 5 * time.Second
	// maxTrip is the longest time for which frames are spaced.
	maxTrip = time.Second
)

var errNoAck = errors.New("hub: it did not acknowledge a frame in 5 s")

// putter is what the origin of a channel has under way. Frames that went to another line do not count:
// that line has ended, and nothing of it is sent any more.
type putter struct {
	channel *Channel

	mu   sync.Mutex
	line *line
	free chan struct{} // has a place for each frame that is not acknowledged
	made bool          // the stream is there, as far as is known
	put  time.Time     // when the last frame left
	trip time.Duration // from there to its acknowledgement, on the mean
}

// Room blocks until a frame of size bytes would leave at once, so that the newest one can be copied then.
// Without a connection to the hub it fails at once.
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

// Put has b stored as the channel's newest frame, after those of the calls before. It blocks while two
// frames are not acknowledged or the connection is busy; see Room. It returns when b is on its way and the
// caller's again. acked then gets the hub's word, within 5 s and at the latest when the connection ends: nil, or
// why b may not be there. Without a connection it fails at once: nothing is kept to be sent later.
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

// places are what a frame takes: one of two until it is acknowledged, and the connection until it is written.
type places struct{ free, turn chan struct{} }

func (p places) all() { <-p.turn; <-p.free }

// enter waits until a frame may leave.
func (p *putter) enter(ctx context.Context, l *line, size int) (places, error) {
	h := l.half(size)
	leave := places{free: p.on(l), turn: h.turn}
	if err := p.place(ctx, l, leave.free); err != nil {
		return leave, err
	}
	err := p.space(ctx, l)
	if err == nil {
		err = p.place(ctx, l, leave.turn)
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

// space waits until half a trip has passed since the last frame. Of two frames that leave together the
// second one waits behind the first, and so would all that follow them.
func (p *putter) space(ctx context.Context, l *line) error {
	p.mu.Lock()
	wait := p.trip/maxUnacked - time.Since(p.put)
	p.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.channel.closed:
		return errClosed
	case <-l.ended:
		return errNotConnected(l.reason())
	}
}

// left says that a frame leaves now.
func (p *putter) left() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put = time.Now()
	return p.put
}

// acknowledged says how long a frame took that left then.
func (p *putter) acknowledged(then time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	trip := min(time.Since(then), maxTrip)
	if p.trip == 0 {
		p.trip = trip
	}
	p.trip += (trip - p.trip) / 8
}

func (p *putter) place(ctx context.Context, l *line, in chan struct{}) error {
	select {
	case in <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.channel.closed:
		return errClosed
	case <-l.ended:
		return errNotConnected(l.reason())
	}
}

// on makes l the line that counts.
func (p *putter) on(l *line) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line != l {
		p.line, p.free, p.made, p.trip = l, make(chan struct{}, maxUnacked), false, 0
	}
	return p.free
}

// publish sends b. A large frame is written by a goroutine that ends with the line.
func (p *putter) publish(l *line, leave places, b []byte) (<-chan error, error) {
	h := l.half(len(b))
	f := &flight{half: h, acked: make(chan error, 1), free: leave.free}
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

// flight is a frame that is not acknowledged.
type flight struct {
	half  *half
	inbox string
	acked chan error
	free  chan struct{}

	mu      sync.Mutex
	late    *time.Timer
	settled bool
}

// settle passes on what became of the frame. The first word counts.
func (f *flight) settle(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.settled {
		return
	}
	f.settled = true
	f.late.Stop()
	f.half.forget(f.inbox)
	f.acked <- err
	<-f.free
}

// word is what the hub says of a frame.
func (p *putter) word(l *line, m *nats.Msg) error {
	if m == nil {
		return errNotConnected(l.reason())
	}
	if statusOf(m) == statusNobody {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.line == l {
			p.made = false // the next put makes the stream
		}
		return errors.New("hub: the channel's stream was gone")
	}
	var answer struct {
		Stream string    `json:"stream"`
		Error  *apiError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		return errors.New("hub: it answered to a frame what no nats-server says")
	case answer.Error != nil:
		return fmt.Errorf("hub: it did not store a frame: %w", answer.Error)
	case answer.Stream != StreamName(p.channel.host, p.channel.name):
		return fmt.Errorf("hub: stream %q of somebody else takes the channel's frames: remove it there", answer.Stream)
	}
	return nil
}
