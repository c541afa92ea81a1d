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

// Consumer feeds one mirror with frames from the hub. The hub is untrusted. A frame reaches the mirror only if it was
// sealed with the key that the origin sent over the control stream, and is newer than all frames before. The goroutine
// run fetches the frames.
type Consumer struct {
	cfg    ConsumerConfig
	cancel context.CancelFunc

	newest   atomic.Uint64 // number of the newest frame that reached the mirror
	replaced atomic.Uint64 // copy of tally.replaced that can be read without mu
	reported tally         // tally at the last call of Report; used only by the node's goroutine

	mu              lock.Mutex[lock.Consumer] // guards the fields below
	phase           consumerPhase
	key             *openingKey   // nil in phase keyless
	announcedNewest uint64        // highest frame number that the origin has announced as its newest
	unkeyed         []byte        // newest sealed frame whose key may still arrive; nil means none
	heldFrame       heldFrame     // valid in phase holding
	unknownKeys     int           // frames sealed with another key since the current key was set
	repeats         *rate.Limiter // limits how often the newest frame may arrive again without counting as replayed
	tally           tally
	opened          []byte // reused memory of the frame that was decrypted last
	decompressor    ring.Decompressor
}

// consumerPhase selects how a Consumer handles a frame from the hub.
type consumerPhase int

const (
	keyless consumerPhase = iota // no key has arrived from the origin: the newest frame is kept sealed
	opening                      // each frame is decrypted and put into the mirror
	holding                      // the frame decrypted last waits for information from the origin
)

var consumerTransitions = phases.Transitions[consumerPhase]{
	keyless: {opening},
	opening: {holding},
	holding: {opening},
}

// ConsumerConfig holds the parameters that a Consumer gets from the node and from the link with the origin.
type ConsumerConfig struct {
	Channel   Channel
	Mirror    *mirror.Mirror
	Feed      *mirror.Feed
	Limit     int                   // largest frame that the origin's channel can hold, bytes
	Newest    uint64                // number of the origin's newest frame when it answered the subscription
	Origin    [16]byte              // node id of the origin
	SignedBy  ed25519.PublicKey     // the origin's public key; nil under a shared network key
	ReadClock func() mirror.Reading // reads the origin's clock
}

// heldFrame is a decrypted frame that waits for information from the origin.
type heldFrame struct {
	seal.Frame
	sent int // size of the sealed frame, bytes
}

// tally counts the frames from the hub.
type tally struct {
	received uint64 // frames sealed by the origin
	replaced uint64 // frames published by the origin, but replaced by later ones before they were received
	forged   uint64 // frames not sealed by the origin
	replayed uint64 // frames received again, or after later ones
}

// keptUp reports whether most frames published since the earlier tally were received, so that a fetch was waiting at the
// hub for each. A few frames may be missing because of jitter.
func (t tally) keptUp(since tally) bool {
	missed := t.replaced - since.replaced
	return missed < missedFew || missed*missedOne <= t.received-since.received
}

const (
	// A reader is slow if the hub replaced at least missedFew frames and more than one for each missedOne received.
	// boundFactor makes a slow reader miss one frame for each four received, which is above that limit.
	missedOne = 5
	missedFew = 3
	// MaxUnknownKeys is how many frames with another key may be at the hub, or in flight, when the origin changes its
	// key.
	MaxUnknownKeys = 4
	// maxSealOverhead is an upper bound of the bytes that sealing adds to the data.
	maxSealOverhead = seal.Before + 1<<10
	// Each connection to the hub begins with the newest frame, which may have arrived over the previous connection.
	repeatBurst = 2
	repeatEvery = 10 * time.Second
	// lastRetry is the longest wait before the next request to the hub.
	lastRetry = 200 * time.Millisecond
)

// NewConsumer starts fetching the frames of a channel, in a goroutine started by spawn, until ctx ends or Stop is
// called.
func NewConsumer(ctx context.Context, spawn func(func()), cfg ConsumerConfig) *Consumer {
	ctx, cancel := context.WithCancel(ctx)
	c := &Consumer{cfg: cfg, cancel: cancel, announcedNewest: cfg.Newest, repeats: rate.NewLimiter(rate.Every(repeatEvery), repeatBurst)}
	spawn(func() { c.run(ctx) })
	return c
}

// Stop ends fetching without waiting for the goroutine. The mirror ignores a frame that is still being handled, because
// it has another feed or none by then. c may be nil.
func (c *Consumer) Stop() {
	if c != nil {
		c.cancel()
	}
}

// Newest returns the number of the newest frame that reached the mirror, 0 if there is none. c may be nil.
func (c *Consumer) Newest() uint64 {
	if c == nil {
		return 0
	}
	return c.newest.Load()
}

// Replaced returns how many frames newer ones replaced at the hub. c may be nil.
func (c *Consumer) Replaced() uint64 {
	if c == nil {
		return 0
	}
	return c.replaced.Load()
}

// ConsumerReport counts the frames since the previous report.
type ConsumerReport struct {
	Pulled           wire.Pulled // its field Sub is not set
	IsNew            bool        // at least one frame was received
	Forged, Replayed uint64
}

// Report returns the counts since the last call.
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

// SetKey accepts frames sealed with a key that the origin has sent, and retries the frame kept in unkeyed.
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

// SetNewest handles the origin's announcement that seq is its newest frame.
func (c *Consumer) SetNewest(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.announcedNewest = max(c.announcedNewest, seq)
	c.retry()
}

// ClockKnown retries the held frame after the estimate of the origin's clock has improved.
func (c *Consumer) ClockKnown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retry()
}

// retry tries again to put the held frame, if there is one. c.mu must be held.
func (c *Consumer) retry() {
	if c.phase == holding {
		c.put(c.heldFrame)
	}
}

// run fetches frames until ctx ends. After a failure it waits, then fetches again.
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
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// accept opens one frame, keeps it until its key has arrived, or counts it as forged or replayed. c.mu must be held.
func (c *Consumer) accept(b []byte) {
	id, err := seal.KeyOf(b)
	switch {
	case err != nil, len(b) > c.cfg.Limit+maxSealOverhead:
		c.tally.forged++
		return
	case c.phase == keyless || id != c.key.id:
		if c.unknownKeys++; c.unknownKeys > MaxUnknownKeys {
			c.tally.forged++
		}
		c.unkeyed = b // replaces an earlier frame
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

// repeated counts a frame that is not newer than the last opened one as replayed, unless it is an expected repeat. c.mu
// must be held.
func (c *Consumer) repeated(last uint64) {
	if last < c.key.from && c.unknownKeys < MaxUnknownKeys { // sent before the subscription
		c.unknownKeys++
		return
	}
	if !c.repeats.Allow() {
		c.tally.replayed++
	}
}

// put puts a frame into the mirror. It holds the frame if the origin's clock is not known yet, or if the origin has not
// yet announced a last-value frame as its newest. c.mu must be held.
func (c *Consumer) put(f heldFrame) {
	at := c.cfg.ReadClock()
	if f.LastValue && f.Seq > c.announcedNewest || !at.Known && f.Captured != 0 {
		consumerTransitions.Move(&c.phase, holding)
		c.heldFrame = f
		c.heldFrame.Data = bytes.Clone(f.Data)
		return
	}
	consumerTransitions.Move(&c.phase, opening)
	c.heldFrame = heldFrame{}
	data, err := c.decompressor.Decompress(f.Codec, f.RawSize, c.cfg.Limit, f.Data)
	if err != nil {
		c.cfg.Mirror.RefuseFrame(c.cfg.Feed, err)
		c.newest.Store(max(c.newest.Load(), f.Seq))
		return
	}
	c.cfg.Mirror.Put(mirror.Arrival{
		From: c.cfg.Feed, Epoch: f.Epoch, Seq: f.Seq, Captured: f.Captured, LastValue: f.LastValue && f.Seq == c.announcedNewest, Past: f.LastValue, At: at, Data: data, Sent: f.sent,
	})
	c.newest.Store(max(c.newest.Load(), f.Seq)) // after Mirror.Put has counted the frame: the counters sent to the origin include Newest
}
