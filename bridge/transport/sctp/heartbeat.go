package sctp

import (
	"crypto/rand"
	"time"

	"achbridge/bridge/transport/session"
)

// Heartbeats of SCTP show that the peer is alive, and give the round trip. We send them
// ourselves: the library sends none by itself, and those that it can be told to send are
// empty, so that no peer answers them.

// rttPeriod is how often the round trip is measured on a busy path.
const rttPeriod = time.Second

// watch returns when the link has to end. It ends the link itself when nothing is heard.
func (l *link) watch() {
	beat := min(l.p.cfg.IdleTimeout/4, session.KeepAlive)
	timer := time.NewTimer(beat)
	defer timer.Stop()
	for {
		select {
		case <-l.ending:
			return
		case <-timer.C:
		}
		l.mu.Lock()
		silent, sampled := time.Since(l.lastCame), time.Since(l.beatAt)
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

// hear notes that something authentic came from the peer.
func (l *link) hear(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastCame = now
	l.packets++
}

// beat sends a heartbeat.
func (l *link) beat() {
	var nonce [nonceSize]byte
	rand.Read(nonce[:]) // never fails
	l.mu.Lock()
	l.beatNonce, l.beatAt, l.beating = nonce, time.Now(), true
	l.mu.Unlock()
	l.write(l.heartbeat(nonce), nil)
}

// beaten handles the answer to a heartbeat. Only heartbeats give the round trip, since
// acknowledgements of data may be delayed by 200 ms. The first one replaces the round trip of
// the handshake, which may include waiting for lost packets.
func (l *link) beaten(chunk []byte, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.beating || len(chunk) != heartbeatNonce+nonceSize || [nonceSize]byte(chunk[heartbeatNonce:]) != l.beatNonce {
		return
	}
	rtt := now.Sub(l.beatAt)
	if !l.timed {
		l.srtt = rtt
	}
	l.beating, l.timed = false, true
	l.srtt += (rtt - l.srtt) / 4
}
