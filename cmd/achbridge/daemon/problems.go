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

// statusSample is a report of the node with its creation time.
type statusSample struct {
	report status.Report
	at     time.Time
}

// statusHistory holds the last reports of the node, oldest first. Rates are computed over several seconds.
type statusHistory []statusSample

const (
	sightEvery = time.Second
	sightSpan  = 5 * time.Second
)

// with adds a report and removes those that are too old. It returns the oldest remaining report, to compare with.
func (s *statusHistory) with(now statusSample) (before statusSample) {
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

// statusReply returns the whole status. It diagnoses problems by comparison with the earlier reports in past, and updates past.
func (d *Daemon) statusReply(past *statusHistory) api.StatusReply {
	now := statusSample{d.node.Status(), time.Now()}
	return api.StatusReply{
		DaemonInfo: d.info(), Goroutines: runtime.NumGoroutine(), Achd: d.achdReport(), Hub: d.hubReport(), Recorder: d.recorderReport(), Report: now.report, Problems: d.problemsOf(past.with(now), now, d.knownAboutUnlinked(now.report)),
	}
}

// knownAboutUnlinked returns, by host, what the daemon knows about the hosts in r that have mirrors or pushes but no link.
func (d *Daemon) knownAboutUnlinked(r status.Report) map[string]diagnose.Surroundings {
	around := map[string]diagnose.Surroundings{}
	add := func(host string) {
		_, linked := diagnose.LinkOf(r, host)
		if _, done := around[host]; !linked && !done {
			around[host] = d.knownAbout(host)
		}
	}
	for _, m := range r.Mirrors {
		add(m.Host)
	}
	for _, p := range r.Pushes {
		add(p.Host)
	}
	return around
}

// problemsOf diagnoses problems by two reports of the node.
func (d *Daemon) problemsOf(before, now statusSample, around map[string]diagnose.Surroundings) []diagnose.Problem {
	h := diagnose.Host{Before: before.report, After: now.report, Apart: now.at.Sub(before.at), Around: around, Load: loadText(), Hidden: map[string]string{}}
	for _, m := range now.report.Mirrors {
		device, there := d.dir.KernelDevice(m.Name)
		device.IsCopy = m.Kernel != nil // an earlier daemon's copy gets no frames
		h.Hidden[m.Name] = diagnose.HiddenBy(device, there)
	}
	for _, c := range now.report.Locals {
		if c.Kind == status.KindKernel {
			continue // HiddenBy is about channels in shared memory
		}
		h.Hidden[c.Channel] = diagnose.HiddenBy(d.dir.KernelDevice(c.Channel))
	}
	var st unix.Statfs_t
	if unix.Statfs(string(d.dir), &st) == nil {
		h.Free = ui.FreeText(string(d.dir), &st)
	}
	return diagnose.Problems(h)
}

// maxSearched limits the hosts without a link for which whyAll searches the network.
const maxSearched = 3

// whyAll observes the node for the window of the query and returns the problems of this host and its peers.
func (d *Daemon) whyAll(ctx context.Context, query url.Values) (r api.ProblemsReport, err error) {
	window, err := windowOf(query, api.WhyWindow.String())
	if err != nil {
		return r, err
	}
	before := statusSample{d.node.Status(), time.Now()}
	around, searched := d.knownAboutUnlinked(before.report), map[string]bool{}
	for _, m := range before.report.Mirrors {
		if _, unlinked := around[m.Host]; unlinked && !searched[m.Host] && len(searched) < maxSearched {
			searched[m.Host], around[m.Host] = true, d.surroundings(ctx, m.Host)
		}
	}
	api.Rest(ctx, window-time.Since(before.at))
	now := statusSample{d.node.Status(), time.Now()}
	r = api.ProblemsReport{
		Host: d.self.Host, Mirrors: len(now.report.Mirrors), Problems: d.problemsOf(before, now, around), WindowS: now.at.Sub(before.at).Seconds(),
	}
	return r, ctx.Err()
}
