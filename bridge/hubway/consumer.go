package hubway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"sync/atomic"
	"time"

	"achbridge/bridge/lock"
	"achbridge/bridge/mirror"
	"achbridge/bridge/phases"
	"achbridge/bridge/ring"
	"achbridge/bridge/seal"
	"achbridge/wire"

	"golang.org/x/time/rate"
)

// Consumer feeds one mirror from the hub. The hub is an adversary: a frame is put only if it is sealed with the key that the
// origin has sent over the control stream, and newer than all that came before. Its goroutine is run.
type Consumer struct {
	cfg    ConsumerConfig
	cancel context.CancelFunc

	newest   atomic.Uint64 // number of the newest frame that went to the mirror
	replaced atomic.Uint64 // the tally's
	reported tally         // by Report; the node's goroutine

	mu           lock.Mutex[lock.Consumer] // guards what follows
	phase        consumerPhase
	key          *openingKey   // nil while keyless
	named        uint64        // newest frame that the origin has named
	unkeyed      []byte        // a frame whose key may be on its way; nil: none
	held         heldFrame     // while holding
	unknownKeys  int           // frames of another key since the present one was set
	repeats      *rate.Limiter // of the newest frame
	tally        tally
	opened       []byte // memory of the frame that was opened last
	decompressor ring.Decompressor
}

// consumerPhase is what happens to a frame from the hub.
type consumerPhase int

const (
	keyless consumerPhase = iota // its key has not come from the origin yet: the newest frame is kept sealed
	opening                      // it is opened, and goes to the mirror
	holding                      // the frame that was opened last waits for information from the origin
)

var consumerTransitions = phases.Transitions[consumerPhase]{
	keyless: {opening},
	opening: {holding},
	holding: {opening},
}

// ConsumerConfig has what a Consumer needs of the node and of the link with the origin.
type ConsumerConfig struct {
	Channel   Channel
	Mirror    *mirror.Mirror
	Feed      *mirror.Feed
	Limit     int                   // bytes of the largest frame that the origin's channel can hold
	Newest    uint64                // newest frame of the origin when it answered the subscription
	Origin    [16]byte              // the origin's node
	SignedBy  ed25519.PublicKey     // the origin's; nil under a shared network key
	ReadClock func() mirror.Reading // reads the origin's clock
}

// heldFrame is a decrypted frame that waits for information from the origin.
type heldFrame struct {
	seal.Frame
	sent int // bytes that it took
}

// tally counts the frames from the hub.
type tally struct {
	received uint64 // sealed by the origin
	replaced uint64 // put by the origin, and not received before later ones
	forged   uint64 // not sealed by the origin
	replayed uint64 // received again, or after later ones
}

// keptUp reports whether most frames that were put since then were received: for such a frame, a fetch was waiting at the hub. A
// jolt on the way may cost some all the same.
func (t tally) keptUp(since tally) bool {
	missed := t.replaced - since.replaced
	return missed < missedFew || missed*missedOne <= t.received-since.received
}

const (
	// Of so many received frames one may be replaced at the hub, and a few in any case, without the reader being slow. Of one
	// that is, boundSpare makes a fourth.
	missedOne = 5
	missedFew = 3
	// MaxUnknownKeys is how many frames of another key may be at the hub, or on their way, when the origin changes it.
	MaxUnknownKeys = 4
	// maxSealed is more than a sealed frame is longer than its data.
	maxSealed = seal.Before + 1<<10
	// A connection to the hub begins with the newest frame, which may have arrived over the last one.
	repeatBurst = 2
	repeatEvery = 10 * time.Second
	// lastRetry is the longest wait before the hub is asked again.
	lastRetry = 200 * time.Millisecond
)

// NewConsumer begins to fetch the frames of a channel, in a goroutine that spawn starts, until ctx ends or Stop is called.
func NewConsumer(ctx context.Context, spawn func(func()), cfg ConsumerConfig) *Consumer {
	ctx, cancel := context.WithCancel(ctx)
	c := &Consumer{cfg: cfg, cancel: cancel, named: cfg.Newest, repeats: rate.NewLimiter(rate.Every(repeatEvery), repeatBurst)}
	spawn(func() { c.run(ctx) })
	return c
}

// Stop ends the fetching, and does not wait for it. A frame that is being handled goes nowhere, since the mirror has another
// feed or none. c may be nil.
func (c *Consumer) Stop() {
	if c != nil {
		c.cancel()
	}
}

// Newest returns the number of the newest frame that went to the mirror, 0 for none. c may be nil.
func (c *Consumer) Newest() uint64 {
	if c == nil {
		return 0
	}
	return c.newest.Load()
}

// Replaced returns how many frames a newer one replaced at the hub. c may be nil.
func (c *Consumer) Replaced() uint64 {
	if c == nil {
		return 0
	}
	return c.replaced.Load()
}

// ConsumerReport counts the frames since the last report.
type ConsumerReport struct {
	Pulled           wire.Pulled // without Sub
	IsNew            bool        // something was received
	Forged, Replayed uint64
}

// Report returns what happened since the last call.
func (c *Consumer) Report() ConsumerReport {
	c.mu.Lock()
	now := c.tally
	c.mu.Unlock()
	before := c.reported
	c.reported = now
	return ConsumerReport{
		Pulled: wire.Pulled{Received: now.received, Waiting: now.keptUp(before)}, IsNew: now.received != before.received,
		Forged: now.forged - before.forged, Replayed: now.replayed - before.replayed,
	}
}

// SetKey begins to accept the frames of a key that the origin has sent.
func (c *Consumer) SetKey(m wire.Key) {
	key := seal.Key{ID: seal.ID(m.KeyID), Secret: [seal.SecretSize]byte(m.Key)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.key = &openingKey{key.ID, m.From, seal.NewOpener(seal.Origin{Key: key, Node: c.cfg.Origin}, c.cfg.SignedBy, m.From)}
	c.unknownKeys = 0
	if c.phase == keyless {
		consumerTransitions.Move(&c.phase, opening)
	}
	if b := c.unkeyed; b != nil {
		c.unkeyed = nil
		c.accept(b)
	}
}

// SetNewest takes the origin's statement that frame seq is its newest.
func (c *Consumer) SetNewest(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.named = max(c.named, seq)
	c.retry()
}

// ClockKnown tries the held frame again, since the origin's clock is known better.
func (c *Consumer) ClockKnown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retry()
}

// retry requires c.mu.
func (c *Consumer) retry() {
	if c.phase == holding {
		c.put(c.held)
	}
}

// run fetches frames until ctx ends. Without a connection it tries again.
func (c *Consumer) run(ctx context.Context) {
	defer c.cfg.Channel.Close()
	wait := time.Duration(0)
	for ctx.Err() == nil {
		b, err := c.cfg.Channel.Next(ctx)
		if err != nil {
			wait = min(max(2*wait, lastRetry/2), lastRetry)
			sleep(ctx, wait)
			continue
		}
		wait = 0
		c.mu.Lock()
		c.accept(b)
		c.mu.Unlock()
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// accept opens one frame, keeps it until its key has arrived, or counts it as forged or replayed. c.mu must be held.
func (c *Consumer) accept(b []byte) {
	id, err := seal.KeyOf(b)
	switch {
	case err != nil, len(b) > c.cfg.Limit+maxSealed:
		c.tally.forged++
		return
	case c.phase == keyless || id != c.key.id:
		if c.unknownKeys++; c.unknownKeys > MaxUnknownKeys {
			c.tally.forged++
		}
		c.unkeyed = b // in place of an earlier one
		return
	}
	before := c.key.Last()
	f, err := c.key.Open(c.opened[:0], b)
	switch {
	case errors.Is(err, seal.ErrReplayed):
		c.repeated(before)
	case err != nil, f.Epoch != c.cfg.Feed.Epoch:
		c.tally.forged++
	default:
		c.opened = f.Data
		c.tally.received++
		c.tally.replaced += c.key.Last() - before - 1
		c.replaced.Store(c.tally.replaced)
		c.put(heldFrame{f, len(b)})
	}
}

// repeated judges a frame that is not newer than those that were opened. c.mu must be held.
func (c *Consumer) repeated(last uint64) {
	if last < c.key.from && c.unknownKeys < MaxUnknownKeys { // from before the subscription
		c.unknownKeys++
		return
	}
	if !c.repeats.Allow() {
		c.tally.replayed++
	}
}

// put puts a frame into the mirror, or holds it until the origin's clock is known, or until the origin has named it as the
// newest. c.mu must be held.
func (c *Consumer) put(f heldFrame) {
	at := c.cfg.ReadClock()
	if f.Owed && f.Seq > c.named || !at.Known && f.Captured != 0 {
		consumerTransitions.Move(&c.phase, holding)
		c.held = f
		c.held.Data = bytes.Clone(f.Data)
		return
	}
	consumerTransitions.Move(&c.phase, opening)
	c.held = heldFrame{}
	data, err := c.decompressor.Decompress(f.Codec, f.RawSize, c.cfg.Limit, f.Data)
	if err != nil {
		c.cfg.Mirror.RefuseFrame(c.cfg.Feed, err)
		c.newest.Store(max(c.newest.Load(), f.Seq))
		return
	}
	c.cfg.Mirror.Put(mirror.Arrival{
		From: c.cfg.Feed, Epoch: f.Epoch, Seq: f.Seq, Captured: f.Captured, Owed: f.Owed && f.Seq == c.named, Past: f.Owed, At: at, Data: data, Sent: f.sent,
	})
	c.newest.Store(max(c.newest.Load(), f.Seq)) // after Mirror.Put has counted it: the counters sent to the origin include Newest
}
