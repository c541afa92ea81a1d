package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
)

const (
	mostTakers = 3   // largest number of channels to name as those that fill a link
	takersTake = 0.6 // their share of the demand
	namesMost  = 4
)

// Banner returns one line that sums up all problems, or "" if there are none.
func Banner(list []Problem) string {
	if len(list) == 0 {
		return ""
	}
	text := string(list[0].Cause) + ": " + list[0].Text
	if n := len(list) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more: achbridge why)", n)
	}
	return text
}

// describe replaces the text of a problem, which is about one channel, by one about all its channels.
func (g *gathering) describe(key problemKey, t *Problem) {
	n := len(t.Channels)
	link := "link from " + t.Host
	if key.out {
		link = "link to " + t.Host
	}
	switch t.Cause {
	case status.CauseLinkRate:
		g.describeRate(key, t, link)
	case status.CauseLoss:
		t.Text = fmt.Sprintf("%s: %s frames", t.Text, plural(n, "channel misses", "channels miss"))
		t.Evidence = append([]string{namesOf(t.Channels)}, t.Evidence...)
	case status.CauseHostBusy:
		g.describeBusy(key, t, link)
		t.Evidence = append([]string{namesOf(t.Channels)}, t.Evidence...)
	case status.CausePeerMissing, status.CausePeerSilent, status.CauseKey, status.CauseRevoked, status.CauseCertificate, status.CauseMulticast:
		t.Text += fmt.Sprintf(": %s for it", plural(n, "channel waits", "channels wait"))
		t.Evidence = append(t.Evidence, namesOf(t.Channels))
	case status.CauseShmFull:
		t.Text = fmt.Sprintf("/dev/shm is full: %s no room for it", plural(n, "mirror has", "mirrors have"))
		t.Evidence = append(t.Evidence, namesOf(t.Channels))
	default:
		if n > 1 {
			t.Text += fmt.Sprintf("; the same is true of %d channels", n)
			t.Evidence = append(t.Evidence, namesOf(t.Channels))
		}
	}
}

// describeBusy writes the text about a host whose daemon gets too little CPU time.
func (g *gathering) describeBusy(key problemKey, t *Problem, link string) {
	origin, reader, n := t.Host, g.After.Host, len(t.Channels)
	if key.out {
		origin, reader = reader, origin
	}
	l, _ := LinkOf(g.After, t.Host)
	text := "the daemon on %s gets too little CPU time: frames of %s "
	if w := waitsOf(g.After, l, key.out); w.starves() {
		t.Text = fmt.Sprintf(text+"are late or missing", w.host(origin, reader), plural(n, "channel", "channels"))
		return
	}
	t.Text = fmt.Sprintf(text+"leave late or not at all, though the %s has room", origin, plural(n, "channel", "channels"), link)
}

// taker is a channel and the rate that it needs on its link, in Mbit/s.
type taker struct {
	name string
	mbit float64
}

// describeRate writes the text about a link's capacity, the needs of its channels, and the largest of these.
func (g *gathering) describeRate(key problemKey, t *Problem, link string) {
	takers, need := g.demand(t.Host, key.out)
	carries := g.carried(t.Host, key.out)
	needs := plural(len(takers), "mirror needs", "mirrors need")
	t.Text = link + " carries less than " + needs
	if carries > 0 && carries < need {
		t.Text = fmt.Sprintf("%s carries %.2g of the %.2g Mbit/s that %s", link, carries, need, needs)
	}
	if need == 0 {
		return
	}
	var names []string
	share := 0.0
	for _, x := range takers {
		if share >= takersTake || len(names) == mostTakers {
			break
		}
		names, share = append(names, x.name), share+x.mbit/need
	}
	takes := "take"
	if len(names) == 1 {
		takes = "takes"
	}
	t.Text += fmt.Sprintf(": %s %s %.0f %%", ui.AndList(names), takes, 100*share)
	t.Fix = "max_rate or compress for " + ui.AndList(names) + "; or a faster link"
}

// demand returns the needs of a link's channels, the largest first, and their sum.
func (g *gathering) demand(host string, out bool) (list []taker, need float64) {
	add := func(name string, put uint64, size int) {
		if mbit := float64(put) * float64(size) * 8 / 1e6 / g.Apart.Seconds(); mbit > 0 {
			list, need = append(list, taker{name, mbit}), need+mbit
		}
	}
	for _, e := range g.After.Exports {
		if i, known := g.exports[exportKey(e)]; known && out && e.Peer == host {
			add(e.Channel, less(e.Offered, g.Before.Exports[i].Offered), e.Bytes)
		}
	}
	for _, m := range g.After.Mirrors {
		if i, known := g.mirrors[m.Name]; known && !out && m.Host == host {
			add(m.Channel, less(m.Offered, g.Before.Mirrors[i].Offered), m.Bytes)
		}
	}
	slices.SortFunc(list, func(a, b taker) int { return cmp.Or(cmp.Compare(b.mbit, a.mbit), cmp.Compare(a.name, b.name)) })
	return list, need
}

// carried returns the measured capacity of a link, otherwise the rate that it carried, in Mbit/s.
func (g *gathering) carried(host string, out bool) float64 {
	l, _ := LinkOf(g.After, host)
	was, _ := LinkOf(g.Before, host)
	path, bytes := l.PathMbit, less(l.SentBytes, was.SentBytes)
	if !out {
		path, bytes = nil, less(l.ReceivedBytes, was.ReceivedBytes)
		if l.Inbound != nil {
			path = l.Inbound.PathMbit
		}
	}
	if path != nil {
		return *path
	}
	return float64(bytes) * 8 / 1e6 / g.Apart.Seconds()
}

// plural returns "1 channel misses" or "3 channels miss", for example.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// namesOf lists channels, at most namesMost by name.
func namesOf(list []string) string {
	if len(list) > namesMost {
		return ui.AndList(append(slices.Clone(list[:namesMost]), fmt.Sprintf("%d more", len(list)-namesMost)))
	}
	return ui.AndList(list)
}
