package diagnose

import (
	"cmp"
	"slices"
	"time"

	"achbridge/bridge/status"
)

// Host has the facts about this host and its peers: two reports of the node, and facts about
// the network and the host.
type Host struct {
	Before, After status.Report
	Apart         time.Duration           // time between the reports; below flowLeast only states count
	Around        map[string]Surroundings // facts about the examined hosts without a link, keyed by host
	Free          string                  // free space in the channel directory, as text
	Load          string                  // load of this host, as text
	Hidden        map[string]string       // see FileFacts.Kernel; keyed by local channel or mirror
}

// Problem is one problem with all channels that it affects.
type Problem struct {
	Finding
	Host     string   `json:"host,omitempty"` // the other host, if the problem concerns one
	Channels []string `json:"channels"`       // local names of the affected channels
	cost     float64  // number of channels lost; a channel that arrives in part counts in part
}

const (
	flowLeast = 500 * time.Millisecond // shorter times give no useful rates
	leastCost = 0.1                    // cost of a channel that nearly works
	stoppedIs = 0.3                    // cost of a channel into which nothing is put: often on purpose
)

// Problems returns the problems of this host and its peers, the most costly first, or an empty list.
func Problems(h Host) []Problem {
	g := gathering{Host: h, by: map[problemKey]*Problem{}, mirrors: map[string]int{}, exports: map[string]int{}}
	for i, m := range h.Before.Mirrors {
		g.mirrors[m.Name] = i
	}
	for i, e := range h.Before.Exports {
		g.exports[exportKey(e)] = i
	}
	for _, m := range h.After.Mirrors {
		if m.Temporary {
			continue
		}
		g.mirror(m)
		if hidden := h.Hidden[m.Name]; hidden != "" {
			g.add(hiddenMirror(m.Name, hidden), channelProblem{channel: m.Name, cost: 1})
		}
		if m.Mismatch != nil {
			g.add(mismatch(m.Mismatch, m.Name, m.Host), channelProblem{channel: m.Name, host: m.Host, cost: leastCost})
		}
	}
	for _, e := range h.After.Exports {
		g.export(e)
	}
	for _, p := range h.After.Pushes {
		g.push(p)
	}
	for _, c := range h.After.Locals {
		s := g.about(h.After.Host, c.Channel)
		if f, bad := s.localFile(c); bad && f.Cause != "" { // a mirror, for example, has no cause
			g.add(f, channelProblem{channel: c.Channel, cost: stoppedIs})
		}
		if c.Waking {
			before, _ := LocalOf(h.Before, c.Channel)
			if f, hangs := s.hangingPut(before, c); hangs {
				g.add(f, channelProblem{channel: c.Channel, cost: 1})
			}
		}
		if hidden := h.Hidden[c.Channel]; hidden != "" && c.Exported {
			g.add(hiddenChannel(c.Channel, hidden), channelProblem{channel: c.Channel, cost: stoppedIs})
		}
		if c.Mismatch != nil {
			g.add(mismatch(c.Mismatch, c.Channel, h.After.Host), channelProblem{channel: c.Channel, cost: leastCost})
		}
	}
	if h.After.NoInotify != "" {
		g.add(noInotify(h.After), channelProblem{cost: leastCost})
	}
	for _, f := range copies(h.After, func(string) bool { return true }) {
		g.add(f, channelProblem{cost: leastCost})
	}
	list := []Problem{}
	for key, t := range g.by {
		slices.Sort(t.Channels)
		t.Channels = slices.Compact(t.Channels)
		g.describe(key, t)
		if t.Evidence == nil {
			t.Evidence = []string{}
		}
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(b.cost, a.cost), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Text, b.Text))
	})
	return list
}

// problemKey identifies the findings that are one problem. All findings about late or missing frames
// on a link are one problem in each direction.
type problemKey struct {
	cause status.Cause // empty for a problem of the link
	host  string
	out   bool
}

// gathering groups findings about channels by their cause.
type gathering struct {
	Host
	by               map[problemKey]*Problem
	mirrors, exports map[string]int // index of each in Before
}

func exportKey(e status.Subscription) string { return e.Peer + "/" + e.Channel }

// linkCauses lists the causes of the link, or of its sender's CPU. One often leads to another.
var linkCauses = []status.Cause{status.CauseLinkRate, status.CauseLoss, status.CauseBudget, status.CauseHostBusy}

// add adds a finding to others of the same cause. The most costly finding, or the first of these, represents all.
func (g *gathering) add(f Finding, of channelProblem) {
	f.Cause = cmp.Or(f.Cause, status.CauseOther)
	key := problemKey{f.Cause, of.host, false}
	switch {
	case slices.Contains(linkCauses, f.Cause):
		key.cause, key.out = "", of.out
	case f.Cause == status.CauseShmFull && !of.out:
		key.host = ""
	}
	t := g.by[key]
	if t == nil {
		t = &Problem{Host: key.host, Channels: []string{}}
		g.by[key] = t
	}
	if t.Cause == "" || of.cost > of.most(t) {
		t.Finding = f
	}
	t.cost += of.cost
	if of.channel != "" {
		t.Channels = append(t.Channels, of.channel)
	}
}

// channelProblem returns a finding as a problem, with its channel and its cost.
type channelProblem struct {
	channel, host string
	out           bool
	cost          float64
}

// most returns the average cost of the channels that a problem has so far.
func (of channelProblem) most(t *Problem) float64 { return t.cost / float64(max(1, len(t.Channels))) }

// about returns the facts that Findings needs about one channel of another host.
func (g *gathering) about(host, channel string) Snapshot {
	s := Snapshot{
		Host: host, Channel: channel, Apart: g.Apart, Around: g.Around[host], File: FileFacts{Free: g.Free}, Load: g.Load,
		Before: status.Report{Host: g.After.Host}, After: status.Report{Host: g.After.Host, CPUWait: g.After.CPUWait, Peers: g.After.Peers},
	}
	if l, ok := LinkOf(g.Before, host); ok {
		s.Before.Links = []status.Link{l}
	}
	if l, ok := LinkOf(g.After, host); ok {
		s.After.Links = []status.Link{l}
	}
	return s
}

func (g *gathering) mirror(m status.Mirror) {
	s, of := g.about(m.Host, m.Channel), channelProblem{channel: m.Name, host: m.Host, cost: 1}
	if m.Unauthenticated {
		s.After.Mirrors = []status.Mirror{m}
		if i, known := g.mirrors[m.Name]; known {
			s.Before.Mirrors = []status.Mirror{g.Before.Mirrors[i]}
		}
		if f := s.byAchd(m); f.Cause != Well {
			g.add(f, of)
		}
		return
	}
	if m.Merge != nil {
		if m.State != status.MirrorLive && m.Merge.Fed == m.Merge.Mirrors { // otherwise a mirror of the merge has the problem
			g.add(s.mergeFinding(m), of)
		}
		return
	}
	if m.Mux != nil {
		if m.State != status.MirrorLive { // robots often have no live command
			g.add(muxFinding(m), of)
		}
		return
	}
	if f, ok := s.unlinked(s.Host); ok {
		g.add(f, of)
		return
	}
	switch m.State {
	case status.MirrorRefused:
		g.add(s.refused(m), of)
		return
	case status.MirrorWaiting:
		f := Finding{Cause: cmp.Or(m.Cause, status.CauseOther), Text: s.Name() + ": " + cmp.Or(m.Reason, "it is about to be mirrored")}
		if f.Cause == status.CauseNoChannel {
			f.Fix = "on " + s.Host + ": start the publisher of " + s.Channel + ", or export it; achbridge why " + s.Channel + " there names the reason"
		}
		g.add(f, of)
		return
	}
	i, known := g.mirrors[m.Name]
	if !known || g.Apart < flowLeast {
		return
	}
	before := g.Before.Mirrors[i]
	s.Before.Mirrors, s.After.Mirrors = []status.Mirror{before}, []status.Mirror{m}
	if m.Age != nil {
		s.Age = m.Age.Window
	}
	if f := s.mirrorFlow(m)[0]; f.Cause != Well && (m.Offered > 0 || m.Seq > 0) { // a channel without any frame misses none
		flow := s.flowFrom(before, m, s.After.Links[0])
		of.cost = costOf(f, &flow)
		g.add(f, of)
	}
}

func costOf(f Finding, flow *flow) float64 {
	switch f.Cause {
	case status.CausePublisherStopped, status.CausePublisherSlow:
		return stoppedIs
	case status.CauseForeignWriter:
		return 1
	}
	return min(1, max(leastCost, flow.missing(), flow.late()))
}

func (g *gathering) export(e status.Subscription) {
	s, of := g.about(g.After.Host, e.Channel), channelProblem{channel: e.Channel, host: e.Peer, out: true}
	i, known := g.exports[exportKey(e)]
	link, linked := LinkOf(g.After, e.Peer)
	if !known || g.Apart < flowLeast || !linked || link.State == status.LinkSilent {
		return // the mirrors of that host report the lost link
	}
	old := g.Before.Exports[i]
	was, _ := LinkOf(g.Before, e.Peer)
	s.Before.Links, s.After.Links = []status.Link{was}, []status.Link{link}
	hz := float64(less(e.Offered, old.Offered)) / g.Apart.Seconds()
	flow := s.flowTo(e, old, hz)
	if f, ok := flow.diagnosis(); ok && (hz > 0 || f.Cause != status.CauseOther) {
		of.cost = costOf(f, &flow)
		g.add(f, of)
	}
}

func (g *gathering) push(p status.Push) {
	if p.State == status.PushAccepted {
		return
	}
	if p.State == status.PushWaiting && p.Cause == "" { // nothing is wrong yet
		return
	}
	s := g.about(g.After.Host, p.Channel)
	s.After.Pushes = []status.Push{p}
	if p.Unauthenticated {
		g.add(pushByAchd(p), channelProblem{channel: p.Channel, host: p.Host, out: true, cost: 1})
		return
	}
	if l, ok := LinkOf(g.After, p.Host); ok {
		s.After.Links = []status.Link{l}
	} else {
		peer := g.about(p.Host, cmp.Or(p.As, p.Channel))
		f, _ := peer.unlinked(p.Host) // always a finding, since there is no link
		g.add(f, channelProblem{channel: p.Channel, host: p.Host, cost: 1})
		return
	}
	for _, f := range s.pushFindings() {
		g.add(f, channelProblem{channel: p.Channel, host: p.Host, out: true, cost: 1})
	}
}
