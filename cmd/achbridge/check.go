package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/daemon"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/doctor"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

func checkCommand(a *app) *cobra.Command {
	c := checker{app: a}
	var explained string
	cmd := &cobra.Command{
		Use:         "check [FILE]",
		Short:       "Check a configuration for errors, or explain its rules",
		Example:     examples("achbridge check new.yaml --link-rate 180Mbit", "achbridge check --explain krang/imu"),
		Annotations: docs("docs/configuration.md"),
		Args:        takes("[FILE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				c.file = args[0]
			}
			switch isExplanation := cmd.Flags().Changed("explain"); {
			case isExplanation && c.rate > 0:
				return ui.Usage(errors.New("--explain shows rules; it does not use --link-rate"), "")
			case isExplanation:
				return a.explain(cmd.Context(), explained, c.file)
			}
			return c.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&explained, "explain", "", "show the rules for `HOST/CHANNEL` (default: check)")
	_ = cmd.RegisterFlagCompletionFunc("explain", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return a.remoteNames(cmd, nil, typed)
	})
	cmd.Flags().Var(&c.rate, "link-rate", "assume this link rate, as in 20Mbit (default: measured)")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

// checker holds the flags of `check`.
type checker struct {
	*app
	file string
	rate ui.BitRate
}

// checkReport is the JSON output of `check`. Its lists are never null.
type checkReport struct {
	File     string             `json:"file"` // empty if there is no configuration file
	Problems config.Problems    `json:"problems"`
	Channels []config.Judgement `json:"channels"`
	Warnings []string           `json:"warnings"`
}

func (c *checker) run(ctx context.Context) error {
	src := c.Source(c.file, nil)
	r := checkReport{File: src.Path, Problems: config.Problems{}, Channels: []config.Judgement{}, Warnings: []string{}}
	cfg, err := src.Load()
	if ps, ok := errors.AsType[config.Problems](err); ok {
		r.Problems = ps
		return c.wrong(r)
	} else if err != nil {
		return err
	}
	_, ps := cfg.Layouts()
	if len(ps) == 0 {
		ps, _ = errors.AsType[config.Problems](daemon.CheckHub(cfg))
	}
	if len(ps) == 0 {
		ps = cfg.CheckGroups(c.daemonGroups(ctx, cfg))
	}
	if len(ps) > 0 {
		r.Problems = ps
		return c.wrong(r)
	}
	running := c.observe(ctx, cfg)
	r.Channels = append(c.locals(cfg, running), c.remotes(ctx, cfg, running)...)
	r.Warnings = slices.Concat(r.Warnings, cfg.Warnings(), config.UnknownVariables(os.Environ()), cfg.Unshifted(), kernelRisk(cfg), cfg.NotInKernel(), c.conflicts(cfg), c.removedChannels(), c.sharedKey(cfg), c.unfit(cfg, running))
	if c.asJSON {
		return c.ui.JSON(r)
	}
	return c.show(r, running)
}

// daemonGroups returns the group ids of the running daemon, or of this process if no daemon runs. nil means root.
func (c *checker) daemonGroups(ctx context.Context, cfg *config.Config) []int {
	var s api.DaemonInfo
	if _, err := c.Client(cmp.Or(c.control, cfg.Control)).Get(ctx, "/v1/status", &s); err == nil {
		if groups, err := doctor.GroupsOf(s.PID); err == nil {
			return groups
		}
	}
	return daemon.OwnGroups()
}

// kernelRisk returns a warning if kernel channels are used.
func kernelRisk(cfg *config.Config) []string {
	if risk := cfg.KernelRisk(); risk != "" {
		return []string{risk}
	}
	return nil
}

// conflicts returns a warning for each entry of the list channels whose channel exists, but has another geometry or cannot be used.
func (c *checker) conflicts(cfg *config.Config) (list []string) {
	for _, ch := range cfg.ChannelRules {
		if err := daemon.ChannelConflict(c.Dir, ch); err != nil {
			list = append(list, err.Error())
		}
	}
	return list
}

// removedChannels returns a warning for each setting or script that removes channels, and one if /dev/shm has too little room.
func (c *checker) removedChannels() []string {
	list := doctor.Removers(c.Dir)
	if text := doctor.ShmProblem(c.Dir); text != "" {
		list = append(list, text)
	}
	return list
}

// wrong prints the errors of the configuration and returns a usage error with their number.
func (c *checker) wrong(r checkReport) error {
	if c.asJSON {
		c.ui.JSON(r)
	} else {
		c.showProblems(r.Problems)
	}
	return ui.Usage(fmt.Errorf("%s: %s", cmp.Or(r.File, "configuration"), countText(len(r.Problems), "error")), "")
}

// showProblems prints each configuration error with an excerpt of its line in the file.
func (c *checker) showProblems(list config.Problems) {
	for _, p := range list {
		c.ui.Fail(p)
		text, _ := os.ReadFile(p.Source) // an unreadable file only means that there are no excerpts
		lines := strings.Split(string(text), "\n")
		if p.Line >= 1 && p.Line <= len(lines) {
			c.ui.Excerpt(p.Line, lines[p.Line-1], p.Column)
		}
	}
}

// observation holds two status reports of a running daemon and the channels that it knows.
type observation struct {
	there         bool
	before, after status.Report
	apart         time.Duration
	channels      []status.RemoteChannel
}

// observeFor is the time between the two status reports, in which frames are counted.
const observeFor = time.Second

func (c *checker) observe(ctx context.Context, cfg *config.Config) (l observation) {
	daemon := c.Client(cmp.Or(c.control, cfg.Control))
	if _, err := daemon.Get(ctx, "/v1/status", &l.before); err != nil {
		return l
	}
	begin := time.Now()
	if len(l.before.Exports) > 0 || c.rate > 0 {
		api.Rest(ctx, observeFor)
	}
	_, err := daemon.Get(ctx, "/v1/status", &l.after)
	if err == nil {
		_, err = daemon.Get(ctx, "/v1/channels", &l.channels)
	}
	l.there, l.apart = err == nil, time.Since(begin)
	return l
}

// locals returns the judgements of the configuration on the channels of this host, except mirrors.
func (c *checker) locals(cfg *config.Config, daemon observation) (list []config.Judgement) {
	mirrors := map[string]bool{}
	for _, m := range daemon.after.Mirrors {
		mirrors[m.Name] = true
	}
	names, err := c.Dir.List()
	if err != nil {
		c.ui.Note("channels of this host: %v", err)
	}
	for _, info := range names {
		if mirrors[info.Name] || c.isMirror(info.Name) {
			continue
		}
		for _, v := range cfg.Judgements(cfg.Name, info.Name, nil) {
			if info.IsAch1x && v.Kind == "accept" {
				continue // a push cannot write into such a channel
			}
			if info.IsAch1x {
				v.Result += "; " + diagnose.Ach1xNote
			}
			if v.Kind == "export" || v.Applies || v.Kind == "push" {
				list = append(list, v)
			}
		}
	}
	return list
}

func (c *checker) isMirror(name string) bool {
	ch, err := c.Dir.TryOpen(name)
	if err != nil {
		return false
	}
	defer ch.Close()
	return ch.Tag() != localach.Tag{}
}

// remotes returns the judgements on the channels of other hosts. For a channel that the
// configuration does not mirror but the daemon does, it returns the daemon's judgement:
// flags of run or the mirror command requested that mirror.
func (c *checker) remotes(ctx context.Context, cfg *config.Config, daemon observation) (list []config.Judgement) {
	for _, r := range daemon.channels {
		v := cfg.MirrorJudgement(r.Host, r.Channel, nil)
		if m, mirrored := diagnose.MirrorOf(daemon.after, r.Host, r.Channel); !v.Applies && v.Rule == "" && mirrored && !m.Temporary {
			v = c.asTheDaemonSays(ctx, cfg, v)
		}
		if r.Closed {
			v = v.ClosedBy(r.Host)
		}
		list = append(list, v)
	}
	return list
}

// asTheDaemonSays returns the daemon's judgement on the channel of v, or v if the daemon returns none.
func (c *checker) asTheDaemonSays(ctx context.Context, cfg *config.Config, v config.Judgement) config.Judgement {
	var e config.Explanation
	_, err := c.Client(cmp.Or(c.control, cfg.Control)).Get(ctx, "/v1/explain?channel="+url.QueryEscape(v.Channel), &e)
	if err != nil || len(e.Judgements) == 0 {
		return v
	}
	said := e.Judgements[0]
	said.Result += ", though this configuration does not ask for it"
	return said
}

// sharedKey returns a warning if operator locks rest on a key that all hosts have.
func (c *checker) sharedKey(cfg *config.Config) []string {
	i := slices.IndexFunc(cfg.AcceptGrants, func(g rule.Grant) bool { return g.Operator != nil })
	if i < 0 {
		return nil
	}
	if key, _, err := c.openKey(cfg.Key); err == nil && key.Host() != "" {
		return nil
	}
	return []string{cfg.AcceptGrants[i].From + ": with one key for all hosts, the operator lock prevents mistakes, not attacks: each host can take the name of another; achbridge ca gives each host its own certificate"}
}

// unfit returns a text for each served subscription that its link cannot carry. With --rate,
// it also checks the mirrors that the configuration requests.
func (c *checker) unfit(cfg *config.Config, daemon observation) (list []string) {
	demands := diagnose.DemandsOf(daemon.before, daemon.after, daemon.apart, c.rate)
	if c.rate > 0 {
		demands = append(demands, c.wanted(cfg, daemon)...)
	}
	for _, d := range demands {
		if text := d.Problem(); text != "" {
			list = append(list, text)
		}
	}
	return list
}

// wanted returns the demand of each mirror that the configuration makes of a known channel.
// It assumes frames of the largest size that the channel's ring takes.
func (c *checker) wanted(cfg *config.Config, daemon observation) (list []diagnose.Demand) {
	for _, r := range daemon.channels {
		m, ok := cfg.MirrorRules.For(r.Host, r.Channel)
		if !ok {
			continue
		}
		name := r.Host + "/" + r.Channel
		d := diagnose.Demand{What: name, Bytes: r.FrameSize, Budget: m.QoS.EffectiveBudget(), Every: m.QoS.Mode == rule.Every, Rate: float64(c.rate)}
		then, known := diagnose.MirrorOf(daemon.before, r.Host, r.Channel)
		if now, _ := diagnose.MirrorOf(daemon.after, r.Host, r.Channel); known && now.Seq >= then.Seq {
			d.Hz = float64(now.Seq-then.Seq) / daemon.apart.Seconds()
		}
		d.Hz = diagnose.Limited(d.Hz, m.QoS.MaxRate)
		list = append(list, d)
	}
	return list
}

func (c *checker) show(r checkReport, daemon observation) error {
	c.ui.Line("%s", cmp.Or(r.File, "no configuration file")+": good")
	if len(r.Channels) > 0 {
		config.SortJudgements(r.Channels)
		rows := make([][]string, len(r.Channels))
		for i, v := range r.Channels {
			rows[i] = []string{v.Channel, v.Result, v.Rule, v.From, v.OptionsText()}
		}
		c.ui.Line("")
		c.ui.Table([]string{"CHANNEL", "RESULT", "RULE", "FROM", "OPTIONS"}, rows)
	}
	if !daemon.there {
		c.ui.Note("no daemon is running here, so the channels of other hosts are not known")
	}
	for _, w := range r.Warnings {
		c.ui.Note("%s", w)
	}
	return nil
}

func explainCommand(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:               "explain HOST/CHANNEL",
		Short:             "Show which rule applies to a channel",
		Example:           examples("achbridge explain krang/imu", "achbridge explain krang/imu -c new.yaml"),
		Annotations:       docs("docs/configuration.md"),
		Args:              takes("HOST/CHANNEL"),
		ValidArgsFunction: a.remoteNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.explain(cmd.Context(), args[0], file)
		},
	}
	configFlag(cmd, &file, "explain configuration `FILE` (default: the daemon's)")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

// explain prints the rules that apply to a channel: those of the daemon if file is empty, otherwise those of the file.
func (a *app) explain(ctx context.Context, channel, file string) error {
	e, err := a.explanation(ctx, channel, file)
	if err != nil {
		return err
	}
	return show(a, e, a.showExplanation)
}

func (a *app) explanation(ctx context.Context, channel, file string) (e config.Explanation, err error) {
	if file == "" {
		_, err = a.daemon().Get(ctx, "/v1/explain?channel="+url.QueryEscape(a.mirrorMeant(ctx, a.daemon(), channel)), &e)
		if !errors.Is(err, api.ErrNoDaemon) {
			return e, err
		}
		a.ui.Note("no daemon is running; this is what the configuration says")
	}
	c, err := a.Source(file, nil).Load()
	if err != nil {
		return e, err
	}
	e, err = c.Explain(channel, nil)
	if err != nil {
		return e, ui.Usage(err, "")
	}
	return e, nil
}

func (a *app) showExplanation(e config.Explanation) error {
	a.ui.Fields("channel", e.Channel, "config", cmp.Or(e.File, "no file"))
	rows, options := [][]string{}, [][]string{}
	for _, v := range e.Judgements {
		rows = append(rows, []string{v.Kind, v.Result, v.Rule, v.From})
		for _, o := range v.Options {
			options = append(options, []string{v.Kind, o.Option, o.Value, o.From})
		}
	}
	a.ui.Line("")
	if err := a.ui.Table([]string{"VERB", "RESULT", "RULE", "FROM"}, rows); err != nil || len(options) == 0 {
		return err
	}
	a.ui.Line("")
	return a.ui.Table([]string{"VERB", "OPTION", "VALUE", "FROM"}, options)
}
