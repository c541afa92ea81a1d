package discovery

import (
	"math/rand/v2"
	"time"

	"github.com/miekg/dns"
)

const (
	firstRound   = time.Second
	lastRound    = time.Minute
	againUnasked = 700 * time.Millisecond // until the next try when there is no network to ask on
)

// questions says when to ask for all hosts: 1, 2, 4 ... 60 s apart, with a jitter of a tenth. A question of another host
// counts as ours (RFC 6762, section 7.3), since all answers are multicast. So about one of many hosts asks.
type questions struct {
	next     time.Time
	interval time.Duration
	rounds   int               // rounds so far, asked or left out
	others   map[int]time.Time // by interface: when another host last asked
}

func newQuestions(now time.Time) questions {
	return questions{next: now, interval: firstRound, others: map[int]time.Time{}}
}

// restart begins the rounds again, after a random delay of up to half a second: a switch that comes back wakes all hosts
// at once.
func (q *questions) restart(now time.Time) {
	q.interval, q.rounds = firstRound, 0
	q.next = now.Add(20*time.Millisecond + rand.N(500*time.Millisecond))
	clear(q.others)
}

func (q *questions) heard(now time.Time, ifIndex int) { q.others[ifIndex] = now }

// due reports whether to ask on the links now. If the time of a round has come, it sets the time of the next.
func (q *questions) due(now time.Time, links []link) bool {
	answered := true
	for _, l := range links {
		at, ok := q.others[l.iface.Index]
		answered = answered && ok && now.Sub(at) < q.interval/2
	}
	q.next = now.Add(q.interval*9/10 + rand.N(q.interval/5))
	q.interval = min(2*q.interval, lastRound)
	q.rounds++
	return !answered
}

// families are the address families to ask on in this round. A responder answers on both families, so it sends four
// packets when asked on both. So only the first two rounds on a network ask on both, and later rounds on one in turn.
func (q *questions) families(open []family) []family {
	if len(open) < 2 || q.rounds <= 2 {
		return open
	}
	i := 1 - q.rounds%2
	return open[i : i+1]
}

// ask sends the question for all hosts by multicast, when it is time. hear receives the answers, which are multicast too.
func (w *watch) ask(now time.Time) {
	if now.Before(w.questions.next) {
		return
	}
	open := w.open()
	if len(open) == 0 {
		w.questions.next = now.Add(againUnasked)
		return
	}
	if !w.questions.due(now, w.links) {
		return
	}
	b, err := question(0)
	if err != nil {
		w.log.Error("cannot ask for peers", "err", err)
		return
	}
	for _, f := range w.questions.families(open) {
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

// open are the families of the sockets that are open.
func (w *watch) open() (list []family) {
	for _, f := range []family{ip4, ip6} {
		if len(w.sockets(f).list) > 0 {
			list = append(list, f)
		}
	}
	return list
}

// question packs the question that every host answers (RFC 6763, section 4).
func question(id uint16) ([]byte, error) {
	var q dns.Msg
	q.SetQuestion(serviceName, dns.TypePTR)
	q.RecursionDesired, q.Id = false, id
	return q.Pack()
}
