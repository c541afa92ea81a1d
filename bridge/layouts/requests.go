package layouts

import (
	"fmt"
	"time"

	"achbridge/bridge/layout"
	"achbridge/bridge/stamps"
	"achbridge/wire"

	"golang.org/x/time/rate"
)

// Requests holds the layout requests to one peer: at most MaxUnanswered at a time, and 20 a second.
type Requests struct {
	cache    *Cache
	ask      func(channel string) (id uint32)
	queued   []*Request          // not sent yet
	sent     map[uint32]*Request // by the id of their wire.Describe
	rejected map[wire.Hash]string
	limiter  *rate.Limiter
}

// Request is the request for one layout to a peer.
type Request struct {
	hash      wire.Hash
	channel   string
	expiresAt time.Time
	done      chan struct{}
	answer    Answer
	callbacks []func(Answer)
}

// Answer has the packed layout, which layout.DecodeLayout accepts, or the reason why there is none.
type Answer struct {
	Encoded []byte
	Why     string
}

// MaxUnanswered is the maximum number of unanswered layout requests to one peer.
const MaxUnanswered = 8

const (
	maxQueued     = 256
	maxRejected   = 64 // hashes of rejected layouts remembered for each peer
	answerTimeout = 5 * time.Second
)

// NewRequests returns the requests to one peer. ask sends a wire.Describe and returns its id. Layouts that the peer
// sends are added to cache.
func NewRequests(cache *Cache, ask func(channel string) (id uint32)) *Requests {
	return &Requests{
		cache: cache, ask: ask,
		sent: make(map[uint32]*Request), rejected: make(map[wire.Hash]string),
		limiter: rate.NewLimiter(rate.Every(50*time.Millisecond), 64),
	}
}

// Add requests the layout of a channel unless that is already requested. It returns nil if too many requests are queued.
func (r *Requests) Add(now time.Time, hash wire.Hash, channel string) *Request {
	for _, q := range r.sent {
		if q.hash == hash {
			return q
		}
	}
	for _, q := range r.queued {
		if q.hash == hash {
			return q
		}
	}
	if len(r.queued) >= maxQueued {
		return nil
	}
	q := &Request{hash: hash, channel: channel, done: make(chan struct{})}
	r.queued = append(r.queued, q)
	r.Send(now)
	return q
}

// Send ends requests that the peer has not answered in time, and sends queued ones as far as the limits allow. The node
// calls it periodically.
func (r *Requests) Send(now time.Time) {
	for id, q := range r.sent {
		if !now.Before(q.expiresAt) {
			delete(r.sent, id)
			q.end(Answer{Why: "it does not answer"})
		}
	}
	for len(r.queued) > 0 && len(r.sent) < MaxUnanswered && r.limiter.AllowN(now, 1) {
		q := r.queued[0]
		r.queued = r.queued[1:]
		q.expiresAt = now.Add(answerTimeout)
		r.sent[r.ask(q.channel)] = q
	}
}

// Receive handles a layout from the peer. It ignores a layout that was not requested. If the layout cannot be used, Receive
// returns the channel and the reason, and the peer is not asked for that layout again.
func (r *Requests) Receive(now time.Time, m wire.Layout) (channel, rejected string) {
	q := r.sent[m.ID]
	if q == nil {
		return "", ""
	}
	delete(r.sent, m.ID)
	defer r.Send(now)
	unpacked, why := checked(m.Encoded, q.hash)
	if why == "" {
		r.cache.add(cachedLayout{q.hash, m.Encoded, unpacked.Fit(), stamps.Guess(unpacked)})
		q.end(Answer{Encoded: m.Encoded})
		return "", ""
	}
	if len(r.rejected) >= maxRejected {
		clear(r.rejected)
	}
	r.rejected[q.hash] = why
	q.end(Answer{Why: why})
	return q.channel, why
}

// Rejected returns why the peer's layout with this hash could not be used, or "".
func (r *Requests) Rejected(hash wire.Hash) string { return r.rejected[hash] }

// checked unpacks a layout and compares it with the hash of the catalog. why is empty if the layout can be used.
func checked(encoded []byte, hash wire.Hash) (l *layout.Layout, why string) {
	if layout.Hash(encoded) != hash {
		return nil, "its layout is not the one of its catalog: the hash differs"
	}
	l, err := layout.DecodeLayout(encoded)
	switch {
	case err != nil:
		return nil, "its layout: " + err.Error()
	case l.Size > wire.MaxFrame:
		return nil, fmt.Sprintf("its layout is of %d bytes, and no frame has more than %d", l.Size, wire.MaxFrame)
	}
	return l, ""
}

// Refuse handles the peer's refusal of a request.
func (r *Requests) Refuse(now time.Time, m wire.Refused) {
	if q := r.sent[m.ID]; q != nil {
		delete(r.sent, m.ID)
		q.end(Answer{Why: m.Text})
		r.Send(now)
	}
}

// Close ends all requests, since the link has ended.
func (r *Requests) Close() {
	for _, q := range r.sent {
		r.queued = append(r.queued, q)
	}
	for _, q := range r.queued {
		q.end(Answer{Why: "the link to it has ended"})
	}
	r.queued = nil
	clear(r.sent)
}

// Done is closed when the request has an answer. Any goroutine may call it.
func (q *Request) Done() <-chan struct{} { return q.done }

// Answer returns the answer once Done is closed. Any goroutine may call it.
func (q *Request) Answer() Answer { return q.answer }

// Then registers f to be called with the answer, on the node's goroutine. Call it before Done is closed.
func (q *Request) Then(f func(Answer)) { q.callbacks = append(q.callbacks, f) }

func (q *Request) end(a Answer) {
	q.answer = a
	close(q.done)
	for _, f := range q.callbacks {
		f(a)
	}
}
