package sctp

import (
	"crypto/rand"
	"time"

	"achbridge/bridge/transport/session"
)

// Heartbeats of SCTP show that the peer is alive, and measure the round trip. We send them
// ourselves: the library sends none by default, and those that it sends on request are empty,
// so that no peer answers them.

// received records what has arrived from the peer. The link's mu guards it.
type received struct {
	packets uint64
	lastAt  time.Time
}

// roundTrip measures the round trip by heartbeats. The link's mu guards it.
type roundTrip struct {
	smoothed time.Duration   // smoothed round trip; until the first answer that of the handshake
	measured bool            // a heartbeat was answered
	nonce    [nonceSize]byte // nonce of the last heartbeat
	sentAt   time.Time
	underWay bool // the last heartbeat is not answered yet
}

// rttPeriod is the interval of the measurements on a busy path.
const rttPeriod = time.Second

// watch sends heartbeats until the link ends. It ends the link if the peer is silent.
func (l *link) watch() {
	beat := min(l.p.cfg.IdleTimeout/4, session.KeepAlive)
	timer := time.NewTimer(beat)
	defer timer.Stop()
	for {
		select {
		case <-l.stopping:
			return
		case <-timer.C:
		}
		l.mu.Lock()
		silent, sampled := time.Since(l.received.lastAt), time.Since(l.trip.sentAt)
		l.mu.Unlock()
		if silent >= l.p.cfg.IdleTimeout {
			l.end(session.ErrSilent)
			return
		}
		wait := beat - silent
		if wait <= 0 || sampled >= rttPeriod {
			l.beat()
			wait = beat
		}
		timer.Reset(min(wait, l.p.cfg.IdleTimeout-silent))
	}
}

// noteReceived records that an authentic packet has arrived from the peer.
func (l *link) noteReceived(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received.lastAt = now
	l.received.packets++
}

// beat sends a heartbeat.
func (l *link) beat() {
	var nonce [nonceSize]byte
	rand.Read(nonce[:]) // never fails
	l.mu.Lock()
	l.trip.nonce, l.trip.sentAt, l.trip.underWay = nonce, time.Now(), true
	l.mu.Unlock()
	l.write(l.heartbeat(nonce), nil)
}

// beaten handles the answer to a heartbeat. Only heartbeats measure the round trip, since
// acknowledgements of data may be delayed by 200 ms. The first answer replaces the round trip
// of the handshake, which may include waiting for lost packets.
func (l *link) beaten(chunk []byte, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.trip
	if !t.underWay || len(chunk) != heartbeatNonce+nonceSize || [nonceSize]byte(chunk[heartbeatNonce:]) != t.nonce {
		return
	}
	rtt := now.Sub(t.sentAt)
	if !t.measured {
		t.smoothed = rtt
	}
	t.underWay, t.measured = false, true
	t.smoothed += (rtt - t.smoothed) / 4
}
