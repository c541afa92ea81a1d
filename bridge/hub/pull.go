package hub

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// maxPulls is how many messages a reader asks for that have not come: one of each pull.
	maxPulls = 3
	// pullLasts is how long the hub keeps a pull that it has no frame for.
	pullLasts = 10 * time.Second
	// pullLate is how long after that it may take to say so.
	pullLate = 2 * time.Second
	// firstRetry and lastRetry are how long a reader waits that finds no stream.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// puller is a reader of a channel. What the hub sends is bounded: it has place for as many frames as
// pulls, and the newest ones stay.
type puller struct {
	channel *Channel
	since   time.Time // when the reader was made
	wake    chan struct{}

	mu      sync.Mutex
	line    *line              // where the consumer is, or nil
	small   *nats.Subscription // to which frames come
	big     *nats.Subscription // the same on the other connection, while frames are larger than smallFrame, and at first
	got     []*nats.Msg
	waiting int // pulls without an answer
	asked   time.Time
	large   bool // the last frame was; the first one may be
	credit  credit

	begun *line // the last line on which a consumer was made; only the goroutine that calls Next uses it
}

func (p *puller) init() {
	p.wake = make(chan struct{}, 1)
	p.since, p.credit, p.large = time.Now(), newCredit(), true
}

// Next blocks until the next frame comes that the hub has, or ctx ends; of several that came since the last call it
// is the newest. It keeps up to three pulls of one message under way. It waits for a connection, for the
// stream to be made, and goes on when one of them was lost. The first frame after that may be one that came
// before. The slice is the caller's.
func (ch *Channel) Next(ctx context.Context) ([]byte, error) {
	p := &ch.pull
	retry := firstRetry
	for {
		if err := ch.over(ctx); err != nil {
			return nil, err
		}
		_, changed := ch.client.current() // first: it may change from now on
		if b := p.newest(); b != nil {
			p.ask()
			return b, nil
		}
		wait := pullLasts + pullLate
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

// newest takes the newest frame that has come.
func (p *puller) newest() []byte {
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

// pause waits until something has come, the line has changed, or it is time.
func (p *puller) pause(ctx context.Context, most time.Duration, changed <-chan struct{}) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-p.wake:
	case <-changed:
	case <-timer.C:
		p.mu.Lock()
		if p.waiting > 0 && time.Since(p.asked) >= pullLasts+pullLate {
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

// follow sees to it that there is a consumer on the line of now.
func (p *puller) follow(ctx context.Context) error {
	l, err := p.channel.client.connected()
	if err != nil {
		return err
	}
	p.mu.Lock()
	there := p.line == l
	if !there {
		p.drop()
	}
	p.mu.Unlock()
	if there {
		return nil
	}
	if err := p.channel.makeConsumer(ctx, l, p.begun != l); err != nil {
		return err
	}
	// Only the first request on a line removes an existing consumer: two hosts with the same credentials would otherwise remove each
	// other's again and again.
	p.begun = l
	inbox, err := l.small.listen(func(m *nats.Msg) { p.take(l, m) })
	if err != nil {
		return errNotConnected(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line, p.small = l, inbox
	return nil
}

// drop forgets consumer and pulls. Needs p.mu.
func (p *puller) drop() {
	for _, inbox := range []*nats.Subscription{p.small, p.big} {
		if inbox != nil {
			_ = inbox.Unsubscribe()
		}
	}
	p.line, p.small, p.big, p.waiting = nil, nil, nil, 0
}

// leave no longer asks for frames.
func (p *puller) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}

// ask sends pulls, as many as there may be. It is false when there is no consumer any more.
func (p *puller) ask() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line == nil {
		return false
	}
	l := p.line
	if p.large && p.big == nil {
		big, err := l.large.listen(func(m *nats.Msg) { p.take(l, m) })
		if err != nil {
			p.drop()
			return false
		}
		p.big = big
	}
	over, inbox := l.small, p.small
	if p.large { // over the connection of its inbox: the hub does not keep a pull that comes before it
		over, inbox = l.large, p.big
	}
	next := PullPrefix + StreamName(p.channel.host, p.channel.name) + "." + ConsumerName(p.channel.client.credentials.Host)
	for p.waiting < p.credit.pulls {
		if over.nc.PublishRequest(next, inbox.Subject, []byte(PullBody)) != nil {
			p.drop()
			return false
		}
		p.waiting++
		p.asked = time.Now()
	}
	return true
}

// A pull is a message with PullBody, published to the subject PullPrefix+STREAM.CONSUMER. A hub of ours refuses any other body.
const (
	PullPrefix = "$JS.API.CONSUMER.MSG.NEXT."
	PullBody   = `{"batch":1,"expires":10000000000}` // expires is pullLasts
)

// take hears what the hub says to a pull: a frame, or why there is none.
func (p *puller) take(l *line, m *nats.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line != l {
		return
	}
	switch {
	case len(m.Data) > 0:
		p.waiting = max(p.waiting-1, 0)
		p.got = append(p.got, m)
		if len(p.got) > maxPulls {
			p.got = append(p.got[:0], p.got[1:]...)
		}
		if stored, err := storedOf(m.Reply); err == nil {
			p.credit.beside = !p.large && l.flow.takes(false)
			p.credit.frame(time.Since(p.since), stored, l.flow.least())
		}
	case statusOf(m) == statusExpired:
		p.waiting = max(p.waiting-1, 0)
	default: // consumer or stream are gone
		p.drop()
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// stored is what the hub says of a frame besides: when it was stored by its clock, and the how manieth of the
// stream it is.
type stored struct {
	at     time.Duration // since the epoch
	number uint64
}

var errReply = errors.New("hub: a frame without a place in its stream")

// storedOf reads the subject to which a frame would be acknowledged:
// $JS.ACK.STREAM.CONSUMER.DELIVERED.NUMBER.DELIVERY.TIME.PENDING, with two or more words between
// ACK and STREAM on servers with domains.
func storedOf(reply string) (stored, error) {
	words := strings.Split(reply, ".")
	if len(words) < 9 || words[0] != "$JS" || words[1] != "ACK" {
		return stored{}, errReply
	}
	first := 5
	if len(words) > 9 {
		first = 7
	}
	if len(words) < first+4 {
		return stored{}, errReply
	}
	number, err := strconv.ParseUint(words[first], 10, 63)
	if err != nil {
		return stored{}, errReply
	}
	at, err := strconv.ParseInt(words[first+2], 10, 64)
	if err != nil {
		return stored{}, errReply
	}
	return stored{at: time.Duration(at), number: number}, nil
}
