package foxglove

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"
)

const (
	// credit is how many messages wait for their pong at most. With one, the link would be idle for a round trip after each
	// message; each further one adds its size to the age of the next.
	credit = 2
	// answerTime is how long the server waits until a message is written and its pong has come. slowestRate, in bytes a
	// second, adds the time for a large message, which is written in pieces of pieceBytes.
	answerTime  = 30 * time.Second
	slowestRate = 16 << 10
	pieceBytes  = 64 << 10
	// mostTexts limits the messages about channels that wait for a viewer.
	mostTexts = 256
	// closeTime limits the goodbye to a viewer.
	closeTime = time.Second

	requestRate  = 50 // messages from a viewer per second
	requestBurst = 500
	// subscriptionsPerRequest is how many subscriptions, or ends of them, count as one more message. Each may open a channel.
	subscriptionsPerRequest = 10
)

var (
	errSlow     = errors.New("the viewer does not answer in time")
	errBacklog  = errors.New("the viewer does not read what the server sends")
	errRequests = fmt.Errorf("more than %d messages or %d subscriptions a second", requestRate, requestRate*subscriptionsPerRequest)
)

// viewer is one connection.
type viewer struct {
	server  *Server
	conn    *websocket.Conn
	options options
	limit   *rate.Limiter
	// endReasons gets why the connection ends. It has room for all goroutines that report.
	endReasons chan error

	turn   chan struct{} // held by the goroutine that chooses and writes the next message
	buffer []byte        // message that is written; belongs to the holder of turn
	wake   chan struct{} // has a value after something was queued

	changing sync.Mutex // held while subscriptions change, before other locks
	isEnded  bool       // guarded by changing

	mu       sync.Mutex // guards the following fields
	queue    queue
	texts    [][]byte             // messages about channels, sent before frames
	topics   map[string]*offering // offerings by topic
	channels map[uint32]*offering // offerings by the ID that the viewer knows
	subs     map[uint32]*slot     // slots by subscription
	lastID   uint32               // ID of the channel that was advertised last
	reported map[uint32]string    // last problem of each subscription that was reported to the viewer
}

// offering is a topic that was advertised to a viewer.
type offering struct {
	id    uint32
	topic *topic
	slot  *slot // nil without a subscription
}

func newViewer(s *Server, conn *websocket.Conn, o options) *viewer {
	conn.SetReadLimit(mostRequestBytes)
	return &viewer{
		server: s, conn: conn, options: o, limit: rate.NewLimiter(requestRate, requestBurst),
		endReasons: make(chan error, 2+credit), turn: make(chan struct{}, 1), wake: make(chan struct{}, 1), queue: queue{period: o.period},
		topics: map[string]*offering{}, channels: map[uint32]*offering{}, subs: map[uint32]*slot{}, reported: map[uint32]string{},
	}
}

// serve exchanges messages with the viewer until the connection or ctx ends. It returns why the connection has ended.
func (v *viewer) serve(ctx context.Context) error {
	using, cancel := context.WithCancel(context.WithoutCancel(ctx)) // its end closes the connection without a reason
	var work sync.WaitGroup
	work.Go(func() { v.endReasons <- v.read(using) })
	for range credit {
		work.Go(func() { v.endReasons <- v.send(using) })
	}
	var err error
	select {
	case err = <-v.endReasons:
	case <-ctx.Done():
		err = ctx.Err()
	}
	v.hangUp(err)
	cancel()
	work.Wait()
	v.drop()
	for errors.Is(err, net.ErrClosed) && len(v.endReasons) > 0 { // another goroutine has closed the connection, and has the reason
		err = <-v.endReasons
	}
	return err
}

// reasonOf returns why a connection ended, as text and as the code of the WebSocket protocol.
func reasonOf(err error) (websocket.StatusCode, string) {
	switch {
	case errors.Is(err, context.Canceled):
		return websocket.StatusGoingAway, "the daemon ends"
	case errors.Is(err, errNotUTF8):
		return websocket.StatusInvalidFramePayloadData, err.Error()
	case errors.Is(err, websocket.ErrMessageTooBig):
		return websocket.StatusMessageTooBig, fmt.Sprintf("a message has more than %d bytes", mostRequestBytes)
	case websocket.CloseStatus(err) >= 0, errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return websocket.StatusNormalClosure, "the viewer has closed the connection"
	}
	return websocket.StatusPolicyViolation, err.Error()
}

// hangUp closes the connection and gives the viewer the reason.
func (v *viewer) hangUp(err error) {
	stop := time.AfterFunc(closeTime, func() { v.conn.CloseNow() })
	defer stop.Stop()
	const most = 123 // bytes of a reason (RFC 6455, 5.5)
	code, reason := reasonOf(err)
	_ = v.conn.Close(code, reason[:min(len(reason), most)]) // an error means that the connection has ended already
}

// read handles the messages from the viewer.
func (v *viewer) read(ctx context.Context) error {
	for {
		kind, data, err := v.conn.Read(ctx)
		if err != nil {
			return err
		}
		parse := parseText
		if kind == websocket.MessageBinary {
			parse = parseBinary
		}
		r, err := parse(data)
		if err != nil {
			return err
		}
		if !v.limit.AllowN(time.Now(), 1+(len(r.subscribe)+len(r.unsubscribe))/subscriptionsPerRequest) {
			return errRequests
		}
		if err := v.handle(r); err != nil {
			return err
		}
	}
}

// handle does what a request asks for. The error means that the viewer does not read the answers.
func (v *viewer) handle(r request) error {
	if r.refused != "" {
		return v.text(statusMessage(levelError, r.refused))
	}
	for _, id := range r.unsubscribe {
		v.unsubscribe(id)
	}
	first, more := "", -1
	for _, s := range r.subscribe {
		if why := v.subscribe(s); why != "" {
			more++
			if first == "" {
				first = why
			}
		}
	}
	switch {
	case more > 0:
		return v.text(statusMessage(levelError, fmt.Sprintf("%s; and %d more subscriptions are refused", first, more)))
	case more == 0:
		return v.text(statusMessage(levelError, first))
	}
	return nil
}

// subscribe begins a subscription. It returns why it does not, or "".
func (v *viewer) subscribe(s subscription) string {
	v.changing.Lock()
	defer v.changing.Unlock()
	to := &slot{id: s.id, channel: s.channel}
	o, why := v.enter(to)
	if why != "" {
		return why
	}
	v.server.subscribe(o.topic, to, v)
	return ""
}

func (v *viewer) enter(s *slot) (*offering, string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	o := v.channels[s.channel]
	switch {
	case o == nil:
		return nil, fmt.Sprintf("subscription %d: no channel %d is advertised", s.id, s.channel)
	case v.subs[s.id] != nil:
		return nil, fmt.Sprintf("subscription %d exists already", s.id)
	case o.slot != nil:
		return nil, fmt.Sprintf("subscription %d: subscription %d has channel %d already", s.id, o.slot.id, s.channel)
	case len(v.subs) >= mostSubscriptions:
		return nil, fmt.Sprintf("subscription %d: a viewer may have %d subscriptions", s.id, mostSubscriptions)
	}
	o.slot, s.topic, v.subs[s.id] = s, o.topic, s
	return o, ""
}

// unsubscribe ends a subscription, if there is one of that ID.
func (v *viewer) unsubscribe(id uint32) {
	v.changing.Lock()
	defer v.changing.Unlock()
	v.mu.Lock()
	s := v.subs[id]
	if s != nil {
		v.leave(s)
	}
	v.mu.Unlock()
	if s != nil {
		v.server.unsubscribe(s)
	}
}

// leave removes a slot. v.mu must be held.
func (v *viewer) leave(s *slot) {
	v.queue.remove(s)
	delete(v.subs, s.id)
	delete(v.reported, s.id)
	if o := v.channels[s.channel]; o != nil {
		o.slot = nil
	}
}

// drop ends all subscriptions.
func (v *viewer) drop() {
	v.changing.Lock()
	defer v.changing.Unlock()
	v.isEnded = true
	v.mu.Lock()
	slots := make([]*slot, 0, len(v.subs))
	for _, s := range v.subs {
		slots = append(slots, s)
		v.queue.remove(s)
	}
	v.mu.Unlock()
	for _, s := range slots {
		v.server.unsubscribe(s)
	}
}

// update advertises to the viewer the topics that exist. It ends the subscriptions to other topics. list must not change any more.
func (v *viewer) update(list []*topic) {
	v.changing.Lock()
	defer v.changing.Unlock()
	if v.isEnded {
		return
	}
	gone, err := v.compare(list)
	for _, s := range gone {
		v.server.unsubscribe(s)
	}
	if err != nil {
		v.isEnded = true // so that no further update reports
		v.endReasons <- err
	}
}

func (v *viewer) compare(list []*topic) (gone []*slot, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	exists := make(map[*topic]bool, len(list))
	for _, t := range list {
		exists[t] = true
	}
	var removed []uint32
	for name, o := range v.topics {
		if exists[o.topic] {
			continue
		}
		if o.slot != nil {
			gone = append(gone, o.slot)
			v.leave(o.slot)
		}
		removed = append(removed, o.id)
		delete(v.topics, name)
		delete(v.channels, o.id)
	}
	if removed != nil {
		v.texts = append(v.texts, unadvertise(removed))
	}
	v.advertise(list)
	for id, s := range v.subs {
		if why := s.feed.problem(); why != v.reported[id] {
			v.reported[id] = why
			if why != "" {
				v.texts = append(v.texts, statusMessage(levelWarning, fmt.Sprintf("%s: %s", s.topic.Topic, why)))
			}
		}
	}
	return gone, v.queued()
}

// advertise queues messages about the topics that the viewer does not know. v.mu must be held.
func (v *viewer) advertise(list []*topic) {
	const most = 1 << 20 // bytes of schemas in a message, unless one channel has more
	news, size := []advertised{}, 0
	isFirst := v.lastID == 0
	for _, t := range list {
		if v.topics[t.Topic] != nil {
			continue
		}
		v.lastID++
		o := &offering{id: v.lastID, topic: t}
		v.topics[t.Topic], v.channels[o.id] = o, o
		news, size = append(news, advertised{o.id, t.description}), size+len(t.Schema)
		if size > most {
			v.texts = append(v.texts, advertise(news))
			news, size = nil, 0
		}
	}
	if len(news) > 0 || isFirst {
		v.texts = append(v.texts, advertise(news))
	}
}

// text queues a text message.
func (v *viewer) text(text []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.texts = append(v.texts, text)
	return v.queued()
}

// queued wakes a sender after a text was queued. v.mu must be held.
func (v *viewer) queued() error {
	v.wakeUp()
	if len(v.texts) > mostTexts {
		return errBacklog
	}
	return nil
}

func (v *viewer) wakeUp() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// offer queues a slot because there may be a newer message. It does not wait for the network.
func (v *viewer) offer(s *slot) {
	if s.isOffered.Swap(true) {
		return
	}
	v.mu.Lock()
	v.queue.offer(s, v.server.now())
	v.mu.Unlock()
	v.wakeUp()
}

// send sends messages until the connection or ctx ends: one, and the next when the viewer has answered.
func (v *viewer) send(ctx context.Context) error {
	for {
		select {
		case v.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		patience, err := v.sendNext(ctx)
		<-v.turn
		if err == nil {
			err = v.ping(ctx, patience)
		}
		if err != nil {
			return err
		}
	}
}

// sendNext waits for the next message and writes it. patience is how long the answer may take.
func (v *viewer) sendNext(ctx context.Context) (patience time.Duration, err error) {
	kind, data, err := v.choose(ctx)
	if err != nil {
		return 0, err
	}
	patience = answerTime + time.Duration(len(data))*time.Second/slowestRate
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSlow)
	defer cancel()
	return patience, slow(ctx, v.write(ctx, kind, data))
}

// write writes a message, a large one in pieces. The library gives up a ping or pong that waits for more than 5 s, and these can
// be sent between two pieces.
func (v *viewer) write(ctx context.Context, kind websocket.MessageType, data []byte) error {
	if len(data) <= pieceBytes {
		return v.conn.Write(ctx, kind, data)
	}
	w, err := v.conn.Writer(ctx, kind)
	if err != nil {
		return err
	}
	for piece := range slices.Chunk(data, pieceBytes) {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return w.Close()
}

// ping sends a ping and waits for its pong, which the viewer sends when it has read what was sent before.
func (v *viewer) ping(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSlow)
	defer cancel()
	return slow(ctx, v.conn.Ping(ctx))
}

// slow returns errSlow in place of an error that a time limit caused.
func slow(ctx context.Context, err error) error {
	if err != nil && (errors.Is(context.Cause(ctx), errSlow) || errors.Is(err, context.DeadlineExceeded)) {
		return errSlow
	}
	return err
}

// choose waits until a message can be sent, and returns it: texts first, then the newest message of the slot that has waited
// longest. Only the holder of turn may call it, and the data are valid until its next call.
func (v *viewer) choose(ctx context.Context) (websocket.MessageType, []byte, error) {
	for {
		text, s, wait := v.take()
		switch {
		case text != nil:
			return websocket.MessageText, text, nil
		case s != nil:
			if data := v.data(s); data != nil {
				return websocket.MessageBinary, data, nil
			}
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-v.wake:
		case <-due:
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
	}
}

func (v *viewer) take() (text []byte, s *slot, wait time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.texts) > 0 {
		text, v.texts = v.texts[0], v.texts[1:]
		return text, nil, 0
	}
	s, wait = v.queue.next(v.server.now())
	return nil, s, wait
}

// data returns the newest message of a slot, nil if the viewer has it already.
func (v *viewer) data(s *slot) []byte {
	s.isOffered.Store(false) // before the read, so that a frame put meanwhile is offered again
	m, ok := s.feed.next(s.last)
	if !ok {
		v.mu.Lock()
		v.queue.undo(s)
		v.mu.Unlock()
		return nil
	}
	s.last = m.number
	if m.hasNext {
		v.offer(s)
	}
	v.buffer = appendData(v.buffer[:0], s.id, m.at, m.data)
	return v.buffer
}
