package hub

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// maxFetches is the maximum number of fetches in flight, each for one message.
	maxFetches = 3
	// fetchTimeout is how long the hub keeps a fetch that it cannot answer with a frame.
	fetchTimeout = 10 * time.Second
	// firstRetry and lastRetry are the delays of a reader that finds no stream.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// consumer reads a channel. It bounds the memory that the hub can use: it keeps at most maxFetches
// frames, the newest ones.
type consumer struct {
	channel *Channel
	since   time.Time // when the consumer was made
	wake    chan struct{}

	mu          sync.Mutex
	pair        *connPair          // connections of the consumer; nil without a consumer
	small       *nats.Subscription // subscription to frames on the small connection
	big         *nats.Subscription // the same on the large connection, made when the first frame or one larger than smallFrame is due
	got         []*nats.Msg
	waiting     int // number of unanswered fetches
	lastFetchAt time.Time
	large       bool // the last frame exceeds smallFrame; true before the first frame, which may
	credit      credit

	consumerPair *connPair // connections on which a consumer was last made; used only by the goroutine that calls Next
}

func (p *consumer) init() {
	p.wake = make(chan struct{}, 1)
	p.since, p.credit, p.large = time.Now(), newCredit(), true
}

// Next blocks until the hub has a further frame, or ctx ends. If several have arrived since the
// last call, it returns the newest. It keeps up to three fetches in flight. It waits for a
// connection and for the stream, and continues when one of them was lost. The first frame after
// such a loss may be one that it returned before. The caller owns the slice.
func (ch *Channel) Next(ctx context.Context) ([]byte, error) {
	p := &ch.consumer
	retry := firstRetry
	for {
		if err := ch.over(ctx); err != nil {
			return nil, err
		}
		_, changed := ch.client.current() // before newest, since it may change from now on
		if b := p.newest(); b != nil {
			p.ask()
			return b, nil
		}
		wait := fetchTimeout + askLimit
		if err := p.follow(ctx); err != nil {
			wait, retry = retry, min(2*retry, lastRetry)
		} else if retry = firstRetry; !p.ask() {
			continue
		}
		if err := p.pause(ctx, wait, changed); err != nil {
			return nil, err
		}
	}
}

// newest returns the newest frame that has arrived, and drops the others.
func (p *consumer) newest() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.got) == 0 {
		return nil
	}
	m := p.got[len(p.got)-1]
	p.got = p.got[:0]
	p.large = len(m.Data) > smallFrame
	return m.Data
}

// pause waits until a message arrives, the connection changes, or most has passed.
func (p *consumer) pause(ctx context.Context, most time.Duration, changed <-chan struct{}) error {
	select {
	case <-p.wake:
	case <-changed:
	case <-time.After(most):
		p.mu.Lock()
		if p.waiting > 0 && time.Since(p.lastFetchAt) >= fetchTimeout+askLimit {
			p.drop()
		}
		p.mu.Unlock()
	case <-ctx.Done():
		return ctx.Err()
	case <-p.channel.closed:
		return p.channel.over(ctx)
	}
	return nil
}

// follow makes sure that there is a consumer on the present connections.
func (p *consumer) follow(ctx context.Context) error {
	l, err := p.channel.client.connected()
	if err != nil {
		return err
	}
	p.mu.Lock()
	there := p.pair == l
	if !there {
		p.drop()
	}
	p.mu.Unlock()
	if there {
		return nil
	}
	if err := p.channel.makeConsumer(ctx, l, p.consumerPair != l); err != nil {
		return err
	}
	// Only the first request on a pair of connections removes an existing consumer. Otherwise two hosts with the
	// same credentials would repeatedly remove each other's.
	p.consumerPair = l
	inbox, err := l.small.listen(func(m *nats.Msg) { p.take(l, m) })
	if err != nil {
		return errNotConnected(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pair, p.small = l, inbox
	return nil
}

// drop forgets the consumer and the fetches. p.mu must be held.
func (p *consumer) drop() {
	for _, inbox := range []*nats.Subscription{p.small, p.big} {
		if inbox != nil {
			_ = inbox.Unsubscribe()
		}
	}
	p.pair, p.small, p.big, p.waiting = nil, nil, nil, 0
}

// leave stops fetching frames.
func (p *consumer) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}

// ask sends fetches up to the present limit. It returns false if there is no consumer any more.
func (p *consumer) ask() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pair == nil {
		return false
	}
	l := p.pair
	if p.large && p.big == nil {
		big, err := l.large.listen(func(m *nats.Msg) { p.take(l, m) })
		if err != nil {
			p.drop()
			return false
		}
		p.big = big
	}
	over, inbox := l.small, p.small
	if p.large { // over the connection of its inbox, since the hub drops a fetch that arrives before the subscription
		over, inbox = l.large, p.big
	}
	next := FetchPrefix + StreamName(p.channel.host, p.channel.name) + "." + ConsumerName(p.channel.client.credentials.Host)
	for p.waiting < p.credit.fetches {
		if over.nc.PublishRequest(next, inbox.Subject, []byte(FetchBody)) != nil {
			p.drop()
			return false
		}
		p.waiting++
		p.lastFetchAt = time.Now()
	}
	return true
}

// A fetch is a message with FetchBody, published to the subject FetchPrefix+STREAM.CONSUMER. Our
// hubs refuse any other body.
const (
	FetchPrefix = "$JS.API.CONSUMER.MSG.NEXT."
	FetchBody   = `{"batch":1,"expires":10000000000}` // expires is fetchTimeout
)

// take handles the hub's answer to a fetch: a frame, or the reason why there is none.
func (p *consumer) take(l *connPair, m *nats.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pair != l {
		return
	}
	switch {
	case len(m.Data) > 0:
		p.waiting = max(p.waiting-1, 0)
		p.got = append(p.got, m)
		if len(p.got) > maxFetches {
			p.got = append(p.got[:0], p.got[1:]...)
		}
		if at, err := m.Metadata(); err == nil {
			p.credit.beside = !p.large && l.flow.takes(false)
			p.credit.frame(time.Since(p.since), stored{time.Duration(at.Timestamp.UnixNano()), at.Sequence.Stream}, l.flow.least())
		}
	case statusOf(m) == statusExpired:
		p.waiting = max(p.waiting-1, 0)
	default: // the consumer or the stream is gone
		p.drop()
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// stored has the server's metadata of a frame: its time of storage and its sequence number.
type stored struct {
	at     time.Duration // time of storage by the hub's clock, since the epoch
	number uint64
}
