package send

import (
	"log/slog"
	"sync"
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/delivery"
	"achbridge/bridge/ledger"
	"achbridge/bridge/lock"
	"achbridge/bridge/mirror"
	"achbridge/bridge/pacing"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/transport/session"
	"achbridge/localach"
)

// Config is what a Link needs of the node and of its peer.
type Config struct {
	Session   *session.Session
	Host      string // the peer's name, for the log
	Source    ring.Source
	Clock     ring.Clock
	Suspended func() time.Duration // total time of suspension of this host
	Copying   *ring.Resources
	Spawn     func(func()) // starts a goroutine whose end the node waits for
	Log       *slog.Logger
	// Control makes what decides when packets leave.
	Control func(*delivery.SentPackets, pacing.Transport) pacing.Control
	// Unsendable is called once for each subscription whose frames cannot be sent. It runs in a
	// goroutine of its own.
	Unsendable func(channel string, err error)
}

// Link carries the frames of one link: those of this host's channels to the peer, and those of
// the peer's channels into their mirrors. Three goroutines serve it, which run Send, Receive and
// ReceiveStreams. All other methods may be called from any goroutine, and do not block.
type Link struct {
	cfg      Config
	session  *session.Session
	wake     chan struct{} // the send loop has something to look at
	wakeFunc func()        // the method value Wake, since making one allocates

	mu              lock.Mutex[lock.Link] // guards the following fields
	subs            map[uint32]*Subscription
	active          []*Subscription // the subscriptions that may have something to send
	sentPackets     delivery.SentPackets
	receivedPackets delivery.ReceivedPackets
	clock           peerClock
	control         pacing.Control
	builder         datagramBuilder
	shares          shares
	wholeAt         [levels]time.Duration // when a whole frame left last, by priority; 0 means never
	traffic         traffic
	pings           pings
	loadGenerator   loadGenerator

	news       news             // has a lock of its own
	compressor *ring.Compressor // compresses small frames; belongs to the send loop
	receiver   receiver
}

// receiver is the state of the receiving side.
type receiver struct {
	decompressor ring.Decompressor // belongs to Receive
	reading      mirror.Reading    // reading of the peer's clock; belongs to Receive

	mu      sync.RWMutex // guards what follows; no other lock is taken under it
	inbound map[uint32]*Inbound
}

// NewLink returns a link that began at the time now.
func NewLink(cfg Config, now time.Duration) *Link {
	l := &Link{
		cfg: cfg, session: cfg.Session, wake: make(chan struct{}, 1), subs: make(map[uint32]*Subscription),
		compressor: ring.NewCompressor(), receiver: receiver{inbound: make(map[uint32]*Inbound)},
	}
	l.wakeFunc = l.Wake
	l.control = cfg.Control(&l.sentPackets, l.session)
	l.sentPackets.Begin(l.session.RTT())
	l.clock.Suspended(now, cfg.Suspended())
	l.receiver.reading.Suspended = l.clock.KnownAt()
	return l
}

// Wake makes the send loop look for something to send.
func (l *Link) Wake() {
	select {
	case l.wake <- struct{}{}:
	default: // a wake is pending already
	}
}

// now returns the time since the node's start.
func (l *Link) now() time.Duration { return l.cfg.Clock.Now() }

// Request is a subscription that the peer has asked for.
type Request struct {
	ID       uint32
	Channel  *localach.Channel
	Copies   *ring.Snapshots // copies of the channel's large frames
	QoS      rule.QoS
	Have     uint64 // frame that the peer's mirror has
	Counters *ledger.SenderCounters
}

// Subscribe begins to send a channel to the peer. No subscription with the same id may exist.
func (l *Link) Subscribe(r Request) *Subscription {
	l.mu.Lock()
	sub := newSubscription(r, l.cfg.Clock)
	sub.link = l
	sub.compression = ring.NewCompression(r.QoS.Compress, l.compressor, l.now)
	sub.source.suspended, sub.source.asleep = l.cfg.Suspended, l.cfg.Suspended()
	l.subs[sub.id] = sub
	l.activate(sub)
	if sub.every != nil {
		l.openStream(sub)
	}
	l.mu.Unlock()
	sub.source.arrivals.Watch(l.cfg.Source, func() {
		if l.news.add(sub) {
			l.Wake()
		}
	})
	l.Wake()
	return sub
}

// Unanswered reports whether the peer has not answered the frames that keep leaving, and since
// when.
func (l *Link) Unanswered(now time.Duration) (since time.Duration, silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sentPackets.Unanswered(now)
}

// IsNarrow reports whether only small packets arrive at the peer.
func (l *Link) IsNarrow(now time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sentPackets.Narrow(now)
}

// RTT returns the smoothed round-trip time of the frames, 0 before the first report.
func (l *Link) RTT() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	smoothed, _ := l.sentPackets.RTT()
	return smoothed
}

// Traffic returns what the link has carried until now.
func (l *Link) Traffic(now time.Duration) status.Traffic {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.traffic.status(now, &l.sentPackets, &l.receivedPackets)
}

// Path returns for how long frames have waited for the path to the peer, and the path's rate in
// bytes a second, 0 if that is not known.
func (l *Link) Path(now time.Duration) (full time.Duration, rate float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.traffic.full.Total(now), max(0, l.control.Path())
}

// peerClock estimates the peer's clock.
type peerClock struct {
	clock.Estimator
	stepped time.Duration // steps of the peer's clock against ours since TakeStep
}

// reading needs the link's mu.
func (c *peerClock) reading(now time.Duration) (r mirror.Reading) {
	r.Now = now
	r.Offset, r.Uncertainty, r.Known = c.Offset(now)
	r.Suspended = c.KnownAt()
	return r
}

// ReadClock returns a reading of the peer's clock at the time now.
func (l *Link) ReadClock(now time.Duration) mirror.Reading {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clock.reading(now)
}

// SampleClock takes one exchange of time stamps: the packet that left at sent by our clock arrived
// at arrived by the peer's, whose answer left at answered and came at now.
func (l *Link) SampleClock(sent, arrived, answered, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock.stepped += l.clock.Sample(sent, arrived, answered, now)
}

// TakeStep returns by how much the peer's clock was set against ours since the last call.
func (l *Link) TakeStep() (step time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	step, l.clock.stepped = l.clock.stepped, 0
	return step
}

// Suspended records that this host was suspended, for total in all. Commands from before that
// have not left yet are not sent.
func (l *Link) Suspended(now, total time.Duration) {
	l.mu.Lock()
	l.clock.Suspended(now, total)
	for _, sub := range l.subs {
		sub.wake()
	}
	l.mu.Unlock()
	l.Wake()
}
