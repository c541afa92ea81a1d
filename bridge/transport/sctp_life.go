package transport

import "time"

// What shows that the peer lives, and how far away it is: SCTP's heartbeats, of which
// the library sends none by itself.

// rttPeriod is how often the round trip is measured on a busy path.
const rttPeriod = time.Second

// watch returns when the link is to end: it ends it itself when nothing is heard.
func (l *sctpLink) watch() {
	beat := min(l.p.idle/4, KeepAlive)
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
		if silent >= l.p.idle {
			l.end(ErrSilent)
			return
		}
		wait := beat - silent
		if wait <= 0 || sampled >= rttPeriod {
			l.assoc.ActiveHeartbeat()
			wait = beat
		}
		timer.Reset(min(wait, l.p.idle-silent))
	}
}

// hear notes that something authentic came from the peer.
func (l *sctpLink) hear(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastCame = now
	l.packets++
}

// beat notes a heartbeat that leaves.
func (l *sctpLink) beat(chunk []byte, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beatInfo, l.beatAt = heartbeatInfo(chunk), now
}

// beaten notes the answer to one. It alone gives the round trip: acknowledgements
// of data may be delayed by 200 ms.
func (l *sctpLink) beaten(chunk []byte, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.beatInfo == "" || heartbeatInfo(chunk) != l.beatInfo {
		return
	}
	l.beatInfo = ""
	l.srtt += (now.Sub(l.beatAt) - l.srtt) / 4
}
