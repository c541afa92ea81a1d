package peers

import (
	"cmp"
	"slices"
	"time"

	"achbridge/bridge/transport"
	"achbridge/bridge/via"
)

// A link stays at the address where it began. A better way may appear later: the cable is in
// again, but the link still runs over the radio. So the node that dialled a link tries the
// peer's other addresses, one a minute. It holds a second session to such an address on standby
// for ten seconds, sends two stamps a second over it, and compares the round trips with those of
// the link (Trial). While the link leads to another machine than the one to which commands went, the
// node also looks for that machine at the peer's other addresses.

const (
	// TrialTime is how long another way to a peer is tried.
	TrialTime   = 10 * time.Second
	trialStamps = 500 * time.Millisecond // between two stamps
	trialLast   = time.Second            // the end of a trial, without new stamps: an answer can still arrive
	// trialEvery is the time between two trials with one peer. So a link that has moved does not
	// move back sooner, unless it fails.
	trialEvery = time.Minute
	// trialProves is how long a link must last after it has moved. If it fails sooner, the link to that peer does not
	// move again for trialLater: an attacker may have announced the new way only to cut it.
	trialProves = 5 * time.Minute
	trialLater  = time.Hour
	// maxWays bounds the number of addresses that are tried for one peer.
	maxWays = 8
	// trialAbove is the shortest round trip of a link with which another way is tried. For a shorter one no better
	// way is worth a handshake.
	trialAbove = 2 * time.Millisecond
)

// IsTrialDue reports whether it is time to try another way to the peer of l.
func (t *Table) IsTrialDue(now time.Duration, l *Link) bool {
	p := t.proved[l.Node]
	return p != nil && l.Dialled && !l.IsSilent && !l.isByHub() && now >= max(l.UpAt+TrialTime, p.proof.nextTrialAt) &&
		(l.WrongMachine || l.RTT >= trialAbove)
}

// NextTrial returns the address to try when a trial is due; ok is false if there is none.
func (t *Table) NextTrial(now time.Duration, l *Link, v View) (at transport.Addrs, ok bool) {
	p := t.proved[l.Node]
	p.proof.nextTrialAt = now + trialEvery
	if l.WrongMachine {
		p.proof.nextTrialAt = now + TrialTime
	}
	ways := t.otherWays(p, l, v)
	if len(ways) == 0 {
		return at, false
	}
	p.proof.trials++
	return ways[p.proof.trials%len(ways)], true
}

// otherWays returns addresses of p other than that of its link l, for the same transport, at most
// maxWays: first those that the operator lists, since anybody can announce any number of others.
func (t *Table) otherWays(p *peer, l *Link, v View) (list []transport.Addrs) {
	about := t.entriesOf(p)
	slices.SortStableFunc(about, func(a, b *peer) int { return cmp.Compare(a.Source, b.Source) })
	for _, q := range about {
		for _, a := range t.usable(q, v) {
			if l.Via == via.QUIC {
				a.SCTP = nil
			} else {
				a.QUIC = nil
			}
			isOther := a != (transport.Addrs{}) && !a.Overlaps(l.At) && (l.WrongMachine || !a.Overlaps(l.CopyAt))
			if isOther && !slices.ContainsFunc(list, a.Equal) {
				list = append(list, a)
			}
			if len(list) == maxWays {
				return list
			}
		}
	}
	return list
}

// FellSilent delays the next trial if a link fails that has moved to another way a short time ago.
func (t *Table) FellSilent(now time.Duration, l *Link) {
	if p := t.proved[l.Node]; p != nil && l.OnTrial && now < l.UpAt+trialProves {
		p.proof.nextTrialAt = now + trialLater
	}
}

// Trial compares the way of a second session to a peer with that of the link to the peer.
type Trial struct {
	BeganAt    time.Duration
	stampedAt  time.Duration   // when the last stamp was sent
	stamps     int             // number of stamps sent
	roundTrips []time.Duration // round trips of the stamps that were answered
	ofLink     []time.Duration // round trips of the link, one for each stamp sent
}

// Step is the next action in a trial.
type Step int

const (
	Wait   Step = iota
	Stamp       // send a stamp over the second session
	Better      // the second session becomes the link
	Worse       // the second session ends
)

// Next returns the next step. rtt is the round trip of the link.
func (t *Trial) Next(now, rtt time.Duration) Step {
	switch since := now - t.BeganAt; {
	case since < TrialTime-trialLast && now >= t.stampedAt+trialStamps:
		t.stampedAt = now
		t.stamps++
		t.ofLink = append(t.ofLink, rtt)
		return Stamp
	case since < TrialTime:
		return Wait
	case t.isBetter():
		return Better
	}
	return Worse
}

// Answered notes the round trip of a stamp that was answered.
func (t *Trial) Answered(rtt time.Duration) { t.roundTrips = append(t.roundTrips, rtt) }

// RTT returns the median round trip so far, 0 if no stamp was answered yet.
func (t *Trial) RTT() time.Duration {
	if len(t.roundTrips) == 0 {
		return 0
	}
	return medianOf(t.roundTrips)
}

// isBetter reports whether all stamps were answered, none more slowly than the link's median
// round trip, and the median of their round trips is at most half of the link's.
func (t *Trial) isBetter() bool {
	if len(t.roundTrips) < t.stamps || len(t.roundTrips) == 0 {
		return false
	}
	link := medianOf(t.ofLink)
	return 2*medianOf(t.roundTrips) <= link && slices.Max(t.roundTrips) <= link
}

func medianOf(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
