package discovery

import (
	"math/rand/v2"
	"time"

	"github.com/miekg/dns"
)

const (
	firstInterval  = time.Second
	maxInterval    = time.Minute
	noNetworkRetry = 700 * time.Millisecond // time to the next attempt if there is no network to query
)

// querySchedule decides when to query for all hosts: at intervals of 1, 2, 4 ... 60 s, with a jitter of 10 %. It omits a
// query if another host has just sent the same (RFC 6762, section 7.3), since answers are multicast. So of many hosts
// about one sends queries.
type querySchedule struct {
	nextAt    time.Time
	interval  time.Duration
	rounds    int               // queries so far, including omitted ones
	lastOther map[int]time.Time // time of the last query of another host, by index of the interface
}

func newQuerySchedule(now time.Time) querySchedule {
	return querySchedule{nextAt: now, interval: firstInterval, lastOther: map[int]time.Time{}}
}

// restart resets the interval and schedules a query after a random delay of up to half a second. The delay spreads the
// queries of all hosts on a switch that comes back.
func (q *querySchedule) restart(now time.Time) {
	q.interval, q.rounds = firstInterval, 0
	q.nextAt = now.Add(20*time.Millisecond + rand.N(500*time.Millisecond))
	clear(q.lastOther)
}

func (q *querySchedule) noteOther(now time.Time, ifIndex int) { q.lastOther[ifIndex] = now }

// due schedules the next query and reports whether to send one now: false if other hosts have just sent one on all links.
func (q *querySchedule) due(now time.Time, links []link) bool {
	answered := true
	for _, l := range links {
		at, ok := q.lastOther[l.iface.Index]
		answered = answered && ok && now.Sub(at) < q.interval/2
	}
	q.nextAt = now.Add(q.interval*9/10 + rand.N(q.interval/5))
	q.interval = min(2*q.interval, maxInterval)
	q.rounds++
	return !answered
}

// families returns the address families to query on. A responder answers each query on both families, so queries on both
// cause four answers. Therefore only the first two queries after restart are on both families; later ones alternate.
func (q *querySchedule) families(open []family) []family {
	if len(open) < 2 || q.rounds <= 2 {
		return open
	}
	i := 1 - q.rounds%2
	return open[i : i+1]
}

// sendQuery multicasts the query for all hosts if it is due. readPackets receives the answers.
func (w *browseState) sendQuery(now time.Time) {
	if now.Before(w.queries.nextAt) {
		return
	}
	open := w.openFamilies()
	if len(open) == 0 {
		w.queries.nextAt = now.Add(noNetworkRetry)
		return
	}
	if !w.queries.due(now, w.links) {
		return
	}
	b, err := encodeQuery(0)
	if err != nil {
		w.log.Error("cannot ask for peers", "err", err)
		return
	}
	for _, f := range w.queries.families(open) {
		for _, l := range w.links {
			if !l.has(f) {
				continue
			}
			if err := w.sockets(f).list[0].send(b, l.iface); err != nil {
				w.log.Debug("cannot ask for peers", "interface", l.iface.Name, "err", err)
			}
		}
	}
}

// openFamilies returns the families that have an open socket.
func (w *browseState) openFamilies() (list []family) {
	for _, f := range []family{ip4, ip6} {
		if len(w.sockets(f).list) > 0 {
			list = append(list, f)
		}
	}
	return list
}

// encodeQuery encodes the query that every host answers (RFC 6763, section 4).
func encodeQuery(id uint16) ([]byte, error) {
	var q dns.Msg
	q.SetQuestion(serviceName, dns.TypePTR)
	q.RecursionDesired, q.Id = false, id
	return q.Pack()
}
