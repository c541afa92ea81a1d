package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/unit"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/daemon"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/view"
	"achbridge/discovery"
)

func lsCommand(a *app) *cobra.Command {
	l := ls{app: a, timeout: 2 * time.Second}
	cmd := &cobra.Command{
		Use:               "ls [HOST/PATTERN]",
		Short:             "List the channels of other hosts",
		Example:           examples("achbridge ls", "achbridge ls '*/imu' --json"),
		Annotations:       docs("docs/monitoring.md"),
		Args:              takes("[HOST/PATTERN]"),
		ValidArgsFunction: a.remoteNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := "*/*"
			if len(args) > 0 {
				pattern = args[0]
			}
			return l.run(cmd.Context(), pattern)
		},
	}
	cmd.Flags().DurationVar(&l.timeout, "timeout", l.timeout, "without a daemon, search for `TIME`")
	cmd.Flags().StringArrayVar(&l.interfaces, "interface", nil, "without a daemon, search on `INTERFACE` (default all)")
	cmd.Flags().StringArrayVar(&l.domains, "domain", nil, "without a daemon, search `DOMAIN` too (default: only mDNS)")
	cmd.Flags().BoolVar(&l.achd, "achd", false, "search also for hosts that only run achd")
	cmd.Flags().BoolVarP(&l.watch, "watch", "w", false, "repeat the output every second")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

// ls holds the flags of `ls`.
type ls struct {
	*app
	timeout    time.Duration
	interfaces []string
	domains    []string
	achd       bool
	watch      bool
}

func (l *ls) run(ctx context.Context, pattern string) error {
	match, err := rule.ParseAddress(pattern)
	if err != nil {
		return ui.Usage(err, "")
	}
	if l.timeout <= 0 || l.timeout > time.Hour {
		return ui.Usage(fmt.Errorf("--timeout %v: want more than 0 and at most 1h", l.timeout), "")
	}
	if l.watch {
		return l.watchList(ctx, match)
	}
	list, err := l.find(ctx, match)
	if err != nil {
		return err
	}
	if err := l.show(list); err != nil {
		return err
	}
	if len(list) == 0 {
		return ui.NotFound(fmt.Errorf("no channel %s found in %s", match, unit.Time(l.timeout)),
			"is achbridge run started over there? where multicast is blocked: achbridge run --peer HOST or --domain DOMAIN")
	}
	return nil
}

// find returns the channels that the daemon knows, or searches the network if no daemon runs.
// With --achd it also searches for hosts that run achd.
func (l *ls) find(ctx context.Context, match rule.Address) ([]status.RemoteChannel, error) {
	var both errgroup.Group
	var list, ofAchd []status.RemoteChannel
	both.Go(func() (err error) {
		if list, err = l.remoteChannels(ctx, match); errors.Is(err, api.ErrNoDaemon) {
			list, err = l.search(ctx, match)
		}
		return err
	})
	if l.achd {
		both.Go(func() (err error) {
			ofAchd, err = l.searchAchd(ctx, match)
			return err
		})
	}
	err := both.Wait()
	return append(list, ofAchd...), err
}

// watchList shows the list every second until ctx ends.
func (l *ls) watchList(ctx context.Context, match rule.Address) error {
	return repeat(ctx, func(n int) error {
		list, err := l.find(ctx, match)
		switch {
		case err != nil || ctx.Err() != nil:
			return err
		case l.asJSON:
			return l.ui.JSONLine(list)
		}
		return l.ui.Repaint(n, func(u *ui.Terminal) error { return u.Table(lsHeader, lsRows(list)) })
	})
}

// remoteChannels gets the channels from the daemon. A daemon that has just started may know none yet,
// so remoteChannels repeats the request until the list is not empty or the timeout is over.
func (l *ls) remoteChannels(ctx context.Context, match rule.Address) (list []status.RemoteChannel, err error) {
	daemon := l.daemon()
	query := url.Values{"match": {match.String()}}
	begin := time.Now()
	api.Until(ctx, l.timeout, func() bool {
		wait := min(max(l.timeout-time.Since(begin), time.Millisecond), view.LongestAsk)
		_, err = daemon.Get(ctx, "/v1/channels?"+query.Encode()+"&wait="+wait.String(), &list)
		return err != nil || len(list) > 0
	})
	if err != nil {
		return nil, err
	}
	var s api.StatusReply
	if _, err := daemon.Get(ctx, "/v1/status", &s); err != nil {
		return nil, err
	}
	if s.Copied != "" {
		l.ui.Note("another machine has the node id of this host: %s; achbridge why", s.Copied)
	}
	var gaps []api.Unlisted
	if _, err := daemon.Get(ctx, "/v1/unlisted?"+query.Encode(), &gaps); err != nil {
		return nil, err
	}
	for _, g := range gaps {
		if g.Far != "" {
			l.ui.Note("%s", g.Far)
			continue
		}
		l.ui.Note("%s has %s channels than are known here, and does not answer", g.Host, moreText(g.Count))
	}
	return list, nil
}

func moreText(count int) string {
	if count == 0 {
		return "perhaps more"
	}
	return fmt.Sprintf("%d more", count)
}

// search finds channels with mDNS and DNS, without a daemon. It shows only hosts of this host's networks.
func (l *ls) search(ctx context.Context, match rule.Address) ([]status.RemoteChannel, error) {
	cfg := discovery.Config{Interfaces: l.interfaces}
	var err error
	if cfg.Domains, err = config.ParseDomains("--domain", l.domains); err != nil {
		return nil, ui.Usage(err, "")
	}
	found, err := discovery.Browse(ctx, cfg, l.timeout)
	if err != nil {
		return nil, ui.Failure(fmt.Errorf("searching the network: %w", err), "")
	}
	self := daemon.Membership{Networks: l.networks()}
	found = slices.DeleteFunc(found, func(p discovery.Peer) bool { return !match.MatchesHost(p.Host) })
	for _, p := range daemon.UnknownPeers(found, self) {
		l.ui.Note("%s belongs to another network (it has another key) and is not shown", p.Host)
	}
	peers := daemon.Members(found, self)
	l.showGaps(peers)
	return api.Filter(match, api.MergeChannels(nil, daemon.AnnouncedChannels(peers))), nil
}

// showGaps prints notes on channels that a search cannot list.
func (l *ls) showGaps(peers []discovery.Peer) {
	for _, p := range peers {
		far, fix, isFar := config.FarText(p)
		switch {
		case isFar:
			l.ui.Note("%s; %s", far, fix)
		case p.Node == "":
			l.ui.Note("%s is listed by its domain, which does not tell its channels: a running daemon can list them", p.Host)
		case p.More > 0:
			l.ui.Note("%s has %d more channels, which only a running daemon can list", p.Host, p.More)
		case len(p.Channels) == 0:
			l.ui.Note("%s is there and offers no channel", p.Host)
		}
	}
}

// networks returns the ids of the networks whose keys are in the key file, or nil without a key.
func (l *ls) networks() []string {
	key, _, err := l.openKey("")
	if err != nil {
		return nil
	}
	return key.Networks()
}

func (l *ls) show(list []status.RemoteChannel) error {
	if l.asJSON {
		return l.ui.JSON(list)
	}
	if len(list) == 0 {
		return nil
	}
	return l.ui.Table(lsHeader, lsRows(list))
}

var lsHeader = []string{"CHANNEL", "FRAMES", "MIRRORED AS", "ADDRESS"}

func lsRows(list []status.RemoteChannel) [][]string {
	rows := make([][]string, len(list))
	for i, c := range list {
		address := addrsText(c.Addrs)
		if c.Way == status.WayHub {
			address = status.AtHub
		}
		if c.CopyAt != "" {
			address += ", a copied image at " + c.CopyAt + "?"
		}
		if c.AnnouncedBy != "" {
			address += " by " + c.AnnouncedBy
		}
		frames := geometryText(c.FrameCount, c.FrameSize)
		if c.Kind != "" {
			frames += ", " + string(c.Kind)
		}
		rows[i] = []string{c.Host + "/" + c.Channel, frames, mirroredText(c), address}
	}
	return rows
}

// mirroredText returns the name of the mirror, or why the channel cannot be mirrored.
func mirroredText(c status.RemoteChannel) string {
	if c.Closed {
		return "not for this host"
	}
	if c.Unproved {
		return "not the host of that name"
	}
	return c.MirroredAs
}

// addrsText returns the first address and the number of further addresses.
func addrsText(addrs []string) string {
	if len(addrs) < 2 {
		return strings.Join(addrs, "")
	}
	return fmt.Sprintf("%s (+%d)", addrs[0], len(addrs)-1)
}

// searchAchd searches the network for channels of hosts that run only achd. It names the hosts by address, as rules do,
// because not every host resolves mDNS names.
func (l *ls) searchAchd(ctx context.Context, match rule.Address) ([]status.RemoteChannel, error) {
	found, err := discovery.BrowseAchd(ctx, l.interfaces, l.timeout)
	if err != nil {
		return nil, ui.Failure(fmt.Errorf("searching the network for achd: %w", err), "")
	}
	list := []status.RemoteChannel{}
	for _, c := range found {
		a, err := rule.ParseChannel("achd://" + c.Addr.String() + "/" + c.Channel)
		if err != nil {
			continue // a rule cannot name this channel
		}
		if rule.Match(match.Channel, a.Channel) && (match.Host == a.Host || rule.Match(match.Host, c.Host)) {
			list = append(list, status.RemoteChannel{
				Host: a.Host, Channel: a.Channel, AnnouncedBy: c.Host, Addrs: []string{c.Addr.String()}, MirroredAs: rule.Mirror{}.Name(a.Host, a.Channel),
			})
		}
	}
	return list, nil
}
