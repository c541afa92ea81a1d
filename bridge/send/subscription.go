package send

import (
	"achbridge/bridge/ledger"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// Subscription sends one channel of this host to the peer. The ring is its queue: it knows that there is something newer, and
// copies the newest frame when the link can take it. The link's mu guards it, except for source.arrivals.
type Subscription struct {
	link        *Link
	id          uint32
	epoch       uint64
	qos         rule.QoS
	counters    *ledger.SenderCounters
	activity    activity
	source      source
	compression ring.Compression
	every       *everySender // mode every; nil in mode newest

	lastCollected ring.Arrival // the newest frame, as the send loop last collected it
	loaded        uint64       // highest number that was copied or passed over
	copied        uint64       // highest number that this subscription copied; 0 means none yet
	arrived       uint64       // highest number known to have arrived
	size          int          // bytes of the frame that was loaded last, as it is sent
	hasWaited     bool         // a newer frame had to wait: for the link, the channel's lock, or the frame before it

	current       frame // loaded last
	older         frame // the large frame before it, all of which has left
	isPathDrained bool  // no queue is on the path
}

// activity is the phase of a subscription.
type activity int

const (
	idle   activity = iota // the subscription has nothing to send
	active                 // the subscription is in Link.active
	ended
)

// newSubscription prepares the sending of a channel.
func newSubscription(r Request, c ring.Clock) *Subscription {
	arrivals, size := ring.NewArrivals(r.Channel, c), r.Channel.Geometry().FrameSize
	known := arrivals.Newest()
	last := known.Seq
	sub := &Subscription{
		id: r.ID, epoch: r.Channel.Epoch(), qos: r.QoS, counters: r.Counters, size: size, arrived: r.Have, loaded: r.Have, lastCollected: known,
		source:  source{ch: r.Channel, reader: r.Channel.Reader(), clock: c, copies: r.Copies, arrivals: arrivals, user: r.Copies.Join(arrivals.Wake)},
		current: frame{rawSize: size},
	}
	arrivals.SetCommand(r.QoS.Class == rule.Command)
	if r.QoS.Mode == rule.Every {
		sub.every = newEverySender(r)
		arrivals.LogAll()
		r.Counters.BeginAll(sub.epoch, r.Have, last)
		return sub
	}
	if r.Have < last {
		sub.loaded = last - 1 // a late joiner gets the newest frame
	}
	r.Counters.Begin(sub.epoch, r.Have, last)
	return sub
}

// Stop ends the sending and closes the sender counters.
func (sub *Subscription) Stop() {
	sub.link.mu.Lock()
	defer sub.link.mu.Unlock()
	delete(sub.link.subs, sub.id)
	sub.counters.Close(sub.newest())
	sub.activity = ended
	if sub.every != nil {
		sub.every.stop()
	}
	sub.current.release()
	sub.older.release()
	sub.source.close()
}

// Requalify sends the channel by another quality of service from now on.
func (sub *Subscription) Requalify(qos rule.QoS) {
	l := sub.link
	l.mu.Lock()
	former := sub.qos.Class
	sub.qos = qos
	if former == rule.Command && qos.Class != rule.Command {
		sub.forgive()
	}
	sub.compression.Want = qos.Compress
	sub.source.arrivals.SetCommand(qos.Class == rule.Command)
	sub.lastCollected = sub.source.arrivals.SetInterval(l.now(), qos.MaxRate.Interval())
	l.activate(sub)
	l.mu.Unlock()
	l.Wake()
}

// Resend sends the newest frame again to a mirror that has only frame have, past its budget or not. It does nothing if a newer
// frame will be sent anyway.
func (sub *Subscription) Resend(have uint64) {
	l := sub.link
	l.mu.Lock()
	sub.resend(have)
	l.activate(sub)
	l.mu.Unlock()
	l.Wake()
}

// TakeReport takes the peer's counters of received frames.
func (sub *Subscription) TakeReport(a wire.FrameCounters) {
	sub.link.mu.Lock()
	defer sub.link.mu.Unlock()
	sub.counters.TakeReport(ledger.FromWire(a))
}

// FrameCounters returns the frame counters, and the newest frame that they include.
func (sub *Subscription) FrameCounters() (a ledger.FrameCounters, newest uint64) {
	sub.link.mu.Lock()
	defer sub.link.mu.Unlock()
	newest = sub.newest()
	if !sub.current.isBusy() && !sub.older.isBusy() && sub.every == nil && !sub.link.sentPackets.Carries(sub.id) {
		return sub.counters.Settled(newest), newest
	}
	return sub.counters.FrameCounters(newest), newest
}

// Show adds the state of the sending to a status.
func (sub *Subscription) Show(s *status.Subscription) {
	sub.link.mu.Lock()
	defer sub.link.mu.Unlock()
	s.Seq, s.Bytes, s.WithRoom = sub.arrived, sub.size, sub.counters.WithRoom
	s.AgeMs, s.PeriodMs, s.DueMs = sub.source.arrivals.Due(sub.source.clock.Now(), sub.qos.MaxRate.Interval())
}

// Problem returns why the last try to read or to send the channel failed; nil if none did.
func (sub *Subscription) Problem() error {
	sub.link.mu.Lock()
	defer sub.link.mu.Unlock()
	return sub.source.problem
}

// newest returns the number of the newest frame that is known: one may be copied out of the ring before the watcher has seen
// it.
func (sub *Subscription) newest() uint64 { return max(sub.source.arrivals.Newest().Seq, sub.copied) }
