package peers

import (
	"slices"
	"time"

	"achbridge/bridge/via"
)

// A host at the hub is dialled through it when something here needs the host, and it has had no link
// for a while, or a silent one. A direct link replaces one over the hub as soon as it is there.

const (
	// hubAfter is how long a host has to be without a link, or 4 RTT of its last one.
	hubAfter = time.Second
	// hubSettled is how long a link through the hub must have lasted for its host to be dialled at once when it ends.
	hubSettled = time.Second
	// maxHubDials is how many hosts are dialled through the hub at once. The hub can name any number.
	maxHubDials = 16
)

// hubNeed records since when a host at the hub has to be dialled.
type hubNeed struct {
	aloneAt  time.Duration // since when the host has no link or a silent one; 0 while it has a link
	aloneFor time.Duration // how long the host may have no link
	neededAt time.Duration // since when something here needs the host; 0 while nothing does
}

// NextByHub returns the dials through the hub to begin now. It is to be called at every tick.
func (t *Table) NextByHub(now time.Duration, v View) (dials []*Dial) {
	running := 0
	for _, p := range t.entries {
		if p.Hub && p.dial != nil {
			running++
		}
	}
	for _, p := range t.entries {
		if p.Hub && t.isDueByHub(now, p, v) && p.dial == nil && running+len(dials) < maxHubDials {
			p.dial = &Dial{Host: p.Host, peer: p}
			dials = append(dials, p.dial)
		}
	}
	return dials
}

// isDueByHub reports whether it is time to dial p's host through the hub.
func (t *Table) isDueByHub(now time.Duration, p *peer, v View) bool {
	l, need := v.linkOf(p.Host), &p.hub
	switch {
	case l != nil && (l.isByHub() || !l.IsSilent):
		need.aloneAt, need.aloneFor = 0, max(hubAfter, 4*l.RTT)
	case need.aloneAt == 0 && l != nil:
		need.aloneAt = max(l.SilentSince, 1)
	case need.aloneAt == 0:
		need.aloneAt, need.aloneFor = max(now, 1), max(hubAfter, need.aloneFor)
	}
	switch {
	case !t.wanted(p, v) || t.over(p, p.Host, v) != via.Any:
		need.neededAt = 0
	case need.neededAt == 0:
		need.neededAt = max(now, 1) // a direct link may be there at the next look
	}
	return need.aloneAt != 0 && need.neededAt != 0 && need.neededAt < now && now >= max(need.aloneAt+need.aloneFor, p.dueAt)
}

// dialledByHub handles the result of a dial through the hub.
func (t *Table) dialledByHub(now time.Duration, p *peer, err error) Outcome {
	if err == nil {
		p.failures, p.err = 0, nil
		return Accepted
	}
	p.delayByHub(now)
	t.unreached(now, p, err)
	return Failed
}

// delayByHub delays the next dial after a failure.
func (p *peer) delayByHub(now time.Duration) {
	p.failures++
	longest := LastBackoff
	if p.lastLink == lost {
		longest = hubBackoff
	}
	p.dueAt = now + Backoff(p.failures, longest)
}

// unlinkedByHub schedules the next dial of a host whose link through the hub ended: at once if the link had lasted.
func (t *Table) unlinkedByHub(now time.Duration, l *Link, end LinkEnd) {
	for _, p := range t.entries {
		switch {
		case !p.Hub || p.Host != l.Host:
		case end.Greeted && now >= l.UpAt+hubSettled:
			p.lastLink, p.failures, p.dueAt = lost, 0, 0
			p.hub.aloneAt, p.hub.aloneFor = max(now, 1), 0 // no need to wait for a direct link, which is dialled all the while
		default:
			p.lastLink = unsettled
			p.delayByHub(now)
		}
	}
}

// isShownElsewhere reports whether the status of another peer shows the host of p, which is at the hub: a peer with its
// addresses, or its link.
func (t *Table) isShownElsewhere(p *peer, v View) bool {
	l := v.linkOf(p.Host)
	if l != nil || p.dial != nil || p.err != nil {
		return l != nil && !l.isByHub()
	}
	return slices.ContainsFunc(t.all(), func(q *peer) bool { return !q.Hub && t.nameOf(q) == p.Host })
}
