package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"achbridge/bridge"
	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// mostGauges is how many channels are measured at once: each of another host may take a
// mirror, and a connection to the daemon.
const mostGauges = 64

// gauge measures one of several channels.
type gauge struct {
	name   string
	begins func() // it has begun, or cannot

	mu sync.Mutex
	meter
	frames int
	err    error // why it measures no more
}

// hzTable measures several channels, and shows them in one table.
func (a *app) hzTable(ctx context.Context, c *api.Client, args []string, h *hz) error {
	names, err := a.measured(ctx, c, args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var reading, beginning sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	var gauges []*gauge
	for _, name := range names {
		g := &gauge{name: name, begins: sync.OnceFunc(beginning.Done), meter: meter{window: h.window}}
		gauges = append(gauges, g)
		beginning.Add(1)
		reading.Go(func() {
			err := a.follow(ctx, c, name, g.read)
			defer g.begins()
			g.mu.Lock()
			defer g.mu.Unlock()
			if ctx.Err() == nil {
				g.err = err
			}
		})
	}
	beginning.Wait() // the first window is a whole one for all
	return a.repeatTable(ctx, gauges, h)
}

// measured are the channels that are meant: of this host, or HOST/CHANNEL.
func (a *app) measured(ctx context.Context, c *api.Client, args []string) ([]string, error) {
	var names []string
	for _, text := range args {
		found := []string{text}
		var err error
		switch {
		case !rule.IsPattern(text):
		case strings.Contains(text, "/"):
			found, err = a.remoteMatches(ctx, c, text)
		default:
			found, err = a.localMatches(text)
		}
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, ui.NotFound(fmt.Errorf("%s: no channel matches", text), "achbridge ls lists those of other hosts, achbridge channel ls those of this one")
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > mostGauges {
		return nil, ui.Usage(fmt.Errorf("%d channels match, and %d can be measured at once", len(names), mostGauges), "choose fewer of them")
	}
	return names, nil
}

func (a *app) remoteMatches(ctx context.Context, c *api.Client, pattern string) (names []string, err error) {
	match, err := rule.ParseChannels(pattern)
	if err != nil {
		return nil, ui.Usage(err, "")
	}
	var list []status.RemoteChannel
	if _, err := c.Get(ctx, "/v1/channels?"+url.Values{"match": {match.String()}, "wait": {longestAsk.String()}}.Encode(), &list); err != nil {
		return nil, err
	}
	for _, r := range list {
		if !r.Closed && !r.Unproved {
			names = append(names, r.Host+"/"+r.Channel)
		}
	}
	return names, nil
}

// localMatches leaves out channels that the daemon keeps for others, as record does.
func (a *app) localMatches(pattern string) (names []string, err error) {
	if err := checkPatterns([]string{pattern}); err != nil {
		return nil, err
	}
	infos, err := a.dir().List()
	if err != nil {
		return nil, ui.Failure(err, "")
	}
	for _, info := range infos {
		if rule.Match(pattern, info.Name) && !helper(info) {
			names = append(names, info.Name)
		}
	}
	return names, nil
}

// helper reports whether a channel is one that the daemon keeps for readers.
func helper(info localach.Info) bool {
	_, companion := mirror.MetaOf(info.Name, info.Tag)
	return companion || bridge.IsPeek(info.Name, info.Tag)
}

// read measures until the view ends.
func (g *gauge) read(l view) error {
	g.mu.Lock()
	g.seen = nil // numbers begin anew with a channel
	g.mu.Unlock()
	g.begins()
	return readAll(l.ctx, l.Channel, func(_ time.Time, a arrival) (more bool, err error) {
		if a.seq == 0 {
			return true, nil
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.frames++
		g.add(a)
		return true, nil
	})
}

// take reports on the window that ends at now.
func (g *gauge) take(now time.Time) (rate, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.measure(now)
	r.Channel = g.name
	return r, g.err
}

func (g *gauge) hadFrames() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.frames > 0
}

// repeatTable shows the table once a second, and not before the window has passed once,
// until the count is reached or ctx ends.
func (a *app) repeatTable(ctx context.Context, gauges []*gauge, h *hz) error {
	tick := time.NewTicker(h.window)
	defer tick.Stop()
	for shown := 0; shown == 0 || shown != h.count; shown++ {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			if err := a.showRates(now, gauges, h, shown); err != nil {
				return err
			}
		}
		tick.Reset(min(h.window, time.Second))
	}
	if slices.ContainsFunc(gauges, (*gauge).hadFrames) {
		return nil
	}
	return ui.NotFound(fmt.Errorf("%s: no frame came", countText(uint64(len(gauges)), "channel")), "is a writer running?")
}

func (a *app) showRates(now time.Time, gauges []*gauge, h *hz, shown int) error {
	var list []rate
	var errs []error
	for _, g := range gauges {
		r, err := g.take(now)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		return errors.Join(errs...)
	}
	if h.asJSON {
		for _, r := range list {
			if err := a.ui.JSONLine(r); err != nil {
				return err
			}
		}
		return nil
	}
	return a.ui.Repaint(shown, func(u *ui.Terminal) error {
		var rows [][]string
		for _, r := range list {
			rows = append(rows, append([]string{r.Channel}, h.row(r)...))
		}
		if h.sum != nil {
			rows = append(rows, h.sum(list))
		}
		if err := u.Table(h.header, rows); err != nil {
			return err
		}
		for _, err := range errs {
			if err := u.Line("%v", err); err != nil {
				return err
			}
		}
		return nil
	})
}
