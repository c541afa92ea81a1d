package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/send"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
)

func pingCommand(a *app) *cobra.Command {
	p := pinging{count: 5, interval: 200 * time.Millisecond}
	cmd := &cobra.Command{
		Use:         "ping HOST",
		Short:       "Measure round trip, loss and capacity of the link to a host",
		Example:     examples("achbridge ping krang -n 100 --interval 1s", "achbridge ping krang --load"),
		Annotations: docs("docs/monitoring.md"),
		Args:        takes("HOST"),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			p.host = args[0]
			return p.check(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.load {
				return a.loadTest(cmd.Context(), a.daemon(), p)
			}
			return a.ping(cmd.Context(), a.daemon(), p)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().IntVarP(&p.count, "count", "n", p.count, "send `N` packets")
	cmd.Flags().DurationVarP(&p.interval, "interval", "i", p.interval, "send a packet every `TIME`")
	cmd.Flags().BoolVar(&p.load, "load", false, "measure for 3 s how much the link carries")
	cmd.Flags().BoolVar(&p.up, "up", false, "with --load, measure from this host to HOST")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

// pinging holds the argument and flags of ping.
type pinging struct {
	host     string
	count    int
	interval time.Duration
	load, up bool
}

func (p pinging) check(cmd *cobra.Command) error {
	switch {
	case p.count < 1:
		return ui.Usage(fmt.Errorf("--count %d: want at least 1", p.count), "")
	case p.interval < 10*time.Millisecond || p.interval > time.Hour:
		return ui.Usage(fmt.Errorf("--interval %v: want 10ms to 1h", p.interval), "")
	case p.up && !p.load:
		return ui.Usage(errors.New("--up needs --load"), "")
	case p.load && (cmd.Flags().Changed("count") || cmd.Flags().Changed("interval")):
		return ui.Usage(errors.New("--load sends no packets one by one: leave out --count and --interval"), "")
	}
	return nil
}

// pinged is the JSON output of `ping`, and the sums that it is computed from.
type pinged struct {
	Host               string   `json:"host"`
	Address            string   `json:"address"`
	Transport          string   `json:"transport"`
	Why                string   `json:"why"` // why the link uses this transport and address
	Sent               int      `json:"sent"`
	Lost               int      `json:"lost"`
	RTTMinMs           *float64 `json:"rtt_min_ms"` // null if all packets were lost
	RTTMeanMs          *float64 `json:"rtt_mean_ms"`
	RTTMaxMs           *float64 `json:"rtt_max_ms"`
	JitterMs           *float64 `json:"jitter_ms"` // null if fewer than two packets came back
	ClockOffsetMs      float64  `json:"clock_offset_ms"`
	ClockUncertaintyMs float64  `json:"clock_uncertainty_ms"`

	last float64
	sum  float64
	move float64
}

// ping sends packets until --count is reached or ctx ends, then prints statistics.
func (a *app) ping(ctx context.Context, c *api.Client, p pinging) error {
	all := pinged{Host: p.host}
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	for all.Sent < p.count && ctx.Err() == nil {
		var r api.PingReply
		_, err := c.Get(ctx, "/v1/ping?"+url.Values{"of": {p.host}}.Encode(), &r)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		all.add(r)
		if !a.asJSON {
			text := "lost"
			if r.RTTms != nil {
				text = ui.Millis(*r.RTTms)
			}
			a.ui.Line("%s: packet %d: %s", p.host, all.Sent, text)
		}
		if all.Sent < p.count {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}
	return a.showPinged(all, p)
}

func (s *pinged) add(r api.PingReply) {
	s.Address, s.Transport, s.Why = r.Link.Addr, r.Link.Transport.String(), r.Why
	s.ClockOffsetMs, s.ClockUncertaintyMs = r.Link.ClockOffsetMs, r.Link.ClockUncertaintyMs
	s.Sent++
	if r.RTTms == nil {
		s.Lost++
		return
	}
	rtt, came := *r.RTTms, s.Sent-s.Lost
	least, most := rtt, rtt
	if came > 1 {
		least, most = min(rtt, *s.RTTMinMs), max(rtt, *s.RTTMaxMs)
		s.move += math.Abs(rtt - s.last)
		jitter := s.move / float64(came-1)
		s.JitterMs = &jitter
	}
	s.sum += rtt
	mean := s.sum / float64(came)
	s.RTTMinMs, s.RTTMeanMs, s.RTTMaxMs, s.last = &least, &mean, &most, rtt
}

func (a *app) showPinged(s pinged, p pinging) error {
	if s.Sent == 0 {
		return nil // interrupted before the first packet
	}
	if a.asJSON {
		a.ui.JSON(s)
	} else if err := a.ui.Fields(
		"round trip", s.rttText(),
		"jitter", millisOr(s.JitterMs),
		"lost", fmt.Sprintf("%d of %d", s.Lost, s.Sent),
		"clock", fmt.Sprintf("%.2f ms apart, ± %s (of the daemons, since each began)", s.ClockOffsetMs, ui.Millis(s.ClockUncertaintyMs)),
		"transport", fmt.Sprintf("%s with %s: %s", s.Transport, s.Address, s.Why),
	); err != nil {
		return err
	}
	if s.Lost == s.Sent {
		return ui.Failure(fmt.Errorf("%s: no packet came back", p.host), "achbridge why says what is wrong with its channels")
	}
	return nil
}

func (s pinged) rttText() string {
	if s.RTTMinMs == nil {
		return ""
	}
	return fmt.Sprintf("%s on average, %s to %s", ui.Millis(*s.RTTMeanMs), ui.Millis(*s.RTTMinMs), ui.Millis(*s.RTTMaxMs))
}

func millisOr(v *float64) string {
	if v == nil {
		return ""
	}
	return ui.Millis(*v)
}

// loadTest announces how much the load test sends, has the daemon run it, and prints the result.
func (a *app) loadTest(ctx context.Context, c *api.Client, p pinging) error {
	var first api.PingReply
	if _, err := c.Get(ctx, "/v1/ping?"+url.Values{"of": {p.host}}.Encode(), &first); err != nil {
		return err
	}
	a.ui.Note("%s", p.announced(first.Link))
	var r api.LoadReply
	query := url.Values{"of": {p.host}, "up": {fmt.Sprint(p.up)}}
	if err := c.Post(ctx, "/v1/load?"+query.Encode(), struct{}{}, &r); err != nil {
		if ctx.Err() != nil {
			err = ui.Failure(errors.New("interrupted; the load has ended too"), "")
		}
		return err
	}
	if err := a.showLoad(r); err != nil {
		return err
	}
	if r.NeededMbit > r.Mbit {
		return ui.OverLimit(fmt.Errorf("%s: the link carries %s, and %s need %s", p.host, ui.Mbit(r.Mbit), countText(r.Mirrors, "mirror"), ui.Mbit(r.NeededMbit)),
			"send less: --max-rate, --compress or fewer mirrors")
	}
	return nil
}

// announced describes a load test before it starts: its direction, duration and amount of data.
func (p pinging) announced(l status.Link) string {
	from, to := p.host, "this host"
	path := (*float64)(nil)
	if l.Inbound != nil {
		path = l.Inbound.PathMbit
	}
	if p.up {
		from, to, path = to, from, l.PathMbit
	}
	text := fmt.Sprintf("%s sends load to %s for 3 s, behind all frames: as much as the link carries", from, to)
	if path != nil {
		text += fmt.Sprintf(", about %s if that is %s as it was last", ui.AboutBytes(int64(*path*1e6/8*3)), ui.Mbit(*path))
	}
	return text + ", at most " + ui.AboutBytes(send.MostLoad)
}

func (a *app) showLoad(r api.LoadReply) error {
	if a.asJSON {
		return a.ui.JSON(r)
	}
	way := "from " + r.Host + " to this host"
	if r.Up {
		way = "from this host to " + r.Host
	}
	need := "no mirror goes this way"
	if r.Mirrors > 0 {
		need = fmt.Sprintf("%s for %s", ui.Mbit(r.NeededMbit), countText(r.Mirrors, "mirror"))
	}
	pairs := []string{
		"carries", fmt.Sprintf("%s %s, over %s", ui.Mbit(r.Mbit), way, r.Transport),
		"of that", fmt.Sprintf("%s load, the rest for mirrors", ui.Mbit(r.LoadMbit)),
		"lost", fmt.Sprintf("%.1f %%", 100*r.Lost),
		"needed", need,
	}
	for _, problem := range r.Problems {
		pairs = append(pairs, "budget", problem)
	}
	return a.ui.Fields(pairs...)
}
