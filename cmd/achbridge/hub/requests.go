package hub

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"achbridge/bridge/hub"
)

const (
	// maxRequests limits the waiting requests of a host.
	maxRequests = 1024
	// A host may request requestBurst streams and consumers at once, as after a start of the hub, then one every requestEvery.
	requestBurst = 4 * maxChannels
	requestEvery = 20 * time.Millisecond
)

var (
	errBusy        = errors.New("too many requests of this host: try again")
	errUnknownHost = errors.New("it is not a host of this hub any more")
)

// requests is the queue of the requests of one host, so that hosts do not wait for each other. maker.mu guards it.
type requests struct {
	waiting []*nats.Msg
	working bool // a goroutine takes requests from waiting until it is empty
	allowed *rate.Limiter
	made    map[string]bool // channels whose streams were made
}

func newRequests() *requests {
	return &requests{allowed: rate.NewLimiter(rate.Every(requestEvery), requestBurst), made: map[string]bool{}}
}

// add queues a request, and reports whether the caller must start serveHost.
func (r *requests) add(m *nats.Msg) (begin bool, err error) {
	if len(r.waiting) >= maxRequests {
		return false, errBusy
	}
	r.waiting = append(r.waiting, m)
	begin, r.working = !r.working, true
	return begin, nil
}

// next removes and returns the oldest request. If there is none, next returns nil and serveHost must end.
func (r *requests) next() *nats.Msg {
	if len(r.waiting) == 0 {
		r.working, r.waiting = false, nil
		return nil
	}
	m := r.waiting[0]
	r.waiting = r.waiting[1:]
	return m
}

// admit counts a request of a host against its rate limit, and reports whether the front may forward the request. Surplus requests
// would fill the connection that carries the requests of all hosts.
func (m *maker) admit(host string) bool {
	if !m.guard.has(host) {
		return false
	}
	m.mu.Lock()
	ok := m.of(host).allowed.Allow()
	m.mu.Unlock()
	if !ok {
		m.warn(host, errBusy)
	}
	return ok
}

// take queues a request of a host. It does not block.
func (m *maker) take(request *nats.Msg) {
	// The hub may publish to any subject, so it replies only to the inbox of the requesting host. A message that the server delivers here
	// for a consumer keeps its original subject, and is ignored.
	host, err := hub.HostOf(request.Subject)
	if err != nil || request.Subject != hub.MakeOf(host) && request.Subject != hub.ReadOf(host) || !hub.IsReplyOf(host, request.Reply) || !m.guard.has(host) {
		return
	}
	m.mu.Lock()
	r := m.of(host)
	begin, err := r.add(request)
	m.mu.Unlock()
	if err != nil {
		m.reply(host, request, err)
	}
	if begin {
		m.work.Go(func() { m.serveHost(host, r) })
	}
}

// of returns the requests of a host. m.mu must be held.
func (m *maker) of(host string) *requests {
	if m.hosts[host] == nil {
		m.hosts[host] = newRequests()
	}
	return m.hosts[host]
}

// serveHost answers the requests of one host until none waits.
func (m *maker) serveHost(host string, r *requests) {
	for {
		m.mu.Lock()
		request := r.next()
		m.mu.Unlock()
		if request == nil {
			return
		}
		m.reply(host, request, m.answer(host, request))
	}
}

// answer creates the stream or the consumer that a host requests.
func (m *maker) answer(host string, request *nats.Msg) (err error) {
	if !m.guard.has(host) {
		return errUnknownHost
	}
	if request.Subject == hub.MakeOf(host) {
		err = m.makeStream(host, string(request.Data))
	} else {
		err = m.makeConsumer(host, request.Data)
	}
	if !m.guard.has(host) { // the host was removed during the request
		m.forget(host)
	}
	return err
}

func (m *maker) reply(host string, request *nats.Msg, err error) {
	text := ""
	if err != nil {
		text = err.Error()
		m.warn(host, err)
	}
	_ = request.Respond([]byte(text)) // fails only if the hub stops
}

// warn logs, rate-limited, that a request of a host is refused.
func (m *maker) warn(host string, err error) {
	m.mu.Lock()
	count, due := m.refused.Cause(time.Since(m.began))
	m.mu.Unlock()
	if due {
		m.log.Warn("request refused", "host", host, "err", err, "count", count)
	}
}
