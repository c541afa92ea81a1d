package discovery

import (
	"math/rand/v2"
	"time"

	"github.com/miekg/dns"
)

const (
	firstInterval  = time.Second
	maxInterval    = time.Minute
	noNetworkRetry = 700 * time.Millisecond // until the next try when there is no network to ask on
)

// querySchedule says when to ask for all hosts: 1, 2, 4 ... 60 s apart, with a jitter of a tenth. A question of another host
// counts as ours (RFC 6762, section 7.3), since all answers are multicast. So about one of many hosts asks.
type querySchedule struct {
	nextAt    time.Time
	interval  time.Duration
	rounds    int               // rounds so far, asked or left out
	lastOther map[int]time.Time // by interface: when another host last asked
}

func newQuerySchedule(now time.Time) querySchedule {
	return querySchedule{nextAt: now, interval: firstInterval, lastOther: map[int]time.Time{}}
}

// restart begins the rounds again, after a random delay of up to half a second: a switch that comes back wakes all hosts
// at once.
func (q *querySchedule) restart(now time.Time) {
	q.interval, q.rounds = firstInterval, 0
	q.nextAt = now.Add(20*time.Millisecond + rand.N(500*time.Millisecond))
	clear(q.lastOther)
}

func (q *querySchedule) noteOther(now time.Time, ifIndex int) { q.lastOther[ifIndex] = now }

// due reports whether to ask on the links now. If the time of a round has come, it sets the time of the next.
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

// families are the address families to ask on in this round. A responder answers on both families, so it sends four
// packets when asked on both. So only the first two rounds on a network ask on both, and later rounds on one in turn.
func (q *querySchedule) families(open []family) []family {
	if len(open) < 2 || q.rounds <= 2 {
		return open
	}
	i := 1 - q.rounds%2
	return open[i : i+1]
}

// sendQuery sends the question for all hosts by multicast, when it is time. hear receives the answers, which are multicast too.
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

// openFamilies are the families of the sockets that are open.
func (w *browseState) openFamilies() (list []family) {
	for _, f := range []family{ip4, ip6} {
		if len(w.sockets(f).list) > 0 {
			list = append(list, f)
		}
	}
	return list
}

// encodeQuery packs the question that every host answers (RFC 6763, section 4).
func encodeQuery(id uint16) ([]byte, error) {
	var q dns.Msg
	q.SetQuestion(serviceName, dns.TypePTR)
	q.RecursionDesired, q.Id = false, id
	return q.Pack()
}
