package daemon

import (
	"context"
	"net/url"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

// looked is a report of the node, and when it was made.
type looked struct {
	report status.Report
	at     time.Time
}

// sights are the last reports of the node, oldest first: rates are over some seconds.
type sights []looked

const (
	sightEvery = time.Second
	sightSpan  = 5 * time.Second
)

// with adds a report and forgets those that are too old. It returns the one to compare with.
func (s *sights) with(now looked) (before looked) {
	for len(*s) > 0 && now.at.Sub((*s)[0].at) > sightSpan {
		*s = (*s)[1:]
	}
	before = now
	if len(*s) > 0 {
		before = (*s)[0]
	}
	if len(*s) == 0 || now.at.Sub((*s)[len(*s)-1].at) >= sightEvery {
		*s = append(*s, now)
	}
	return before
}

// look takes all figures, and says what is wrong by the last looks, which past keeps.
func (d *Daemon) look(past *sights) api.StatusReply {
	now := looked{d.node.Status(), time.Now()}
	return api.StatusReply{
		DaemonInfo: d.info(), Goroutines: runtime.NumGoroutine(), Achd: d.achdReport(), Hub: d.hubReport(), Report: now.report, Troubles: d.troublesOf(past.with(now), now, nil),
	}
}

// troublesOf says what is wrong by two reports.
func (d *Daemon) troublesOf(before, now looked, around map[string]diagnose.Surroundings) []diagnose.Trouble {
	h := diagnose.Host{Before: before.report, After: now.report, Apart: now.at.Sub(before.at), Around: around, Load: loadText(), Hidden: map[string]string{}}
	for _, m := range now.report.Mirrors {
		h.Hidden[m.Name] = diagnose.HiddenBy(d.dir.KernelDevice(m.Name))
	}
	for _, c := range now.report.Locals {
		h.Hidden[c.Channel] = diagnose.HiddenBy(d.dir.KernelDevice(c.Channel))
	}
	var st unix.Statfs_t
	if unix.Statfs(string(d.dir), &st) == nil {
		h.Free = ui.FreeText(string(d.dir), &st)
	}
	return diagnose.Troubles(h)
}

// lookAround is for how many hosts without a link the network is searched at most.
const lookAround = 3

// whyAll watches for a while and says what is wrong with this host and its peers.
func (d *Daemon) whyAll(ctx context.Context, query url.Values) (r api.TroublesReport, err error) {
	window, err := windowOf(query, api.WhyWindow.String())
	if err != nil {
		return r, err
	}
	before, around := looked{d.node.Status(), time.Now()}, map[string]diagnose.Surroundings{}
	for _, m := range before.report.Mirrors {
		_, linked := diagnose.LinkOf(before.report, m.Host)
		if _, done := around[m.Host]; !linked && !done && len(around) < lookAround {
			around[m.Host] = d.surroundings(ctx, m.Host)
		}
	}
	api.Rest(ctx, window-time.Since(before.at))
	now := looked{d.node.Status(), time.Now()}
	r = api.TroublesReport{
		Host: d.self.Host, Mirrors: len(now.report.Mirrors), Troubles: d.troublesOf(before, now, around), WindowS: now.at.Sub(before.at).Seconds(),
	}
	return r, ctx.Err()
}
