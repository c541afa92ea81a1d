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

	"achbridge/bridge"
	"achbridge/discovery"
)

func lsCommand(a *app) *cobra.Command {
	l := ls{app: a, timeout: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "ls [HOST/PATTERN]",
		Short: "List the channels of other hosts",
		Long: `List the channels that other hosts of the network offer, and under which name
they are mirrored here. HOST alone stands for HOST/*; quote patterns.

A running daemon is asked; it links to the hosts in question where that tells more
than they announce. Without a daemon the network is searched for --timeout, which
needs no key (whoever has one sees the hosts of that network only), and shows what
is announced: of a host with many channels that is not all, and whether its rules
let this host read them is not known.`,
		Example:           "  achbridge ls\n  achbridge ls krang\n  achbridge ls '*/imu' --json",
		Args:              takes("[HOST/PATTERN]"),
		ValidArgsFunction: a.remoteNames(&l.control),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := "*/*"
			if len(args) > 0 {
				pattern = args[0]
			}
			return l.run(cmd.Context(), pattern)
		},
	}
	cmd.Flags().DurationVar(&l.timeout, "timeout", l.timeout, "search for so long (`TIME`)")
	cmd.Flags().StringArrayVar(&l.interfaces, "interface", nil, "without a daemon: search on network `INTERFACE` (default all)")
	cmd.Flags().StringArrayVar(&l.domains, "domain", nil, "without a daemon: search also the DNS zone of `DOMAIN`")
	jsonFlag(cmd, &l.asJSON)
	controlFlag(cmd, &l.control)
	return cmd
}

// ls is what the flags of `ls` ask for.
type ls struct {
	*app
	timeout    time.Duration
	interfaces []string
	domains    []string
	asJSON     bool
	control    string
}

func (l *ls) run(ctx context.Context, pattern string) error {
	match, err := parseAddress(pattern)
	if err != nil {
		return misused(err, "")
	}
	if l.timeout <= 0 || l.timeout > time.Hour {
		return misused(fmt.Errorf("--timeout %v: want more than 0 and at most 1h", l.timeout), "")
	}
	list, err := l.ask(ctx, match)
	if errors.Is(err, errNoDaemon) {
		list, err = l.search(ctx, match)
	}
	if err != nil {
		return err
	}
	if err := l.show(list); err != nil {
		return err
	}
	if len(list) == 0 {
		return nothing(fmt.Errorf("no channel %s found in %v", match, l.timeout),
			"is achbridge run started over there? where multicast is blocked: achbridge run --peer HOST or --domain DOMAIN")
	}
	return nil
}

// longestAsk is how long a single question may take.
const longestAsk = 2 * time.Second

// ask asks the daemon, again and again until it knows something or the time is
// over: it may have been started a moment ago.
func (l *ls) ask(ctx context.Context, match address) (list []bridge.RemoteChannel, err error) {
	daemon := l.client(l.control)
	query := url.Values{"match": {match.String()}}
	begin := time.Now()
	until(ctx, l.timeout, func() bool {
		wait := min(max(l.timeout-time.Since(begin), time.Millisecond), longestAsk)
		_, err = daemon.get(ctx, "/v1/channels?"+query.Encode()+"&wait="+wait.String(), &list)
		return err != nil || len(list) > 0
	})
	if err != nil {
		return nil, err
	}
	var gaps []unlisted
	if _, err := daemon.get(ctx, "/v1/unlisted?"+query.Encode(), &gaps); err != nil {
		return nil, err
	}
	for _, g := range gaps {
		l.ui.note("%s has %s channels than are known here, and does not answer", g.Host, moreText(g.Count))
	}
	return list, nil
}

func moreText(count int) string {
	if count == 0 {
		return "perhaps more"
	}
	return fmt.Sprintf("%d more", count)
}

// search browses the network.
func (l *ls) search(ctx context.Context, match address) ([]bridge.RemoteChannel, error) {
	cfg := discovery.Config{Interfaces: l.interfaces}
	var err error
	if cfg.Domains, err = parseDomains("--domain", l.domains); err != nil {
		return nil, misused(err, "")
	}
	found, err := discovery.Browse(ctx, cfg, l.timeout)
	if err != nil {
		return nil, failed(fmt.Errorf("searching the network: %w", err), "")
	}
	self := membership{networks: l.networks()}
	found = slices.DeleteFunc(found, func(p discovery.Peer) bool { return !match.matchesHost(p.Host) })
	for _, p := range strangers(found, self) {
		l.ui.note("%s belongs to another network (it has another key) and is not shown", p.Host)
	}
	peers := members(found, self)
	l.tellGaps(peers)
	return match.filter(mergeChannels(nil, announcedChannels(peers))), nil
}

// tellGaps says what a search cannot see.
func (l *ls) tellGaps(peers []discovery.Peer) {
	for _, p := range peers {
		switch {
		case p.Node == "":
			l.ui.note("%s is listed by its domain, which does not tell its channels: a running daemon can list them", p.Host)
		case p.More > 0:
			l.ui.note("%s has %d more channels, which only a running daemon can list", p.Host, p.More)
		case len(p.Channels) == 0:
			l.ui.note("%s is there and offers no channel", p.Host)
		}
	}
}

// networks are the ids of the networks whose key is here, none without a key.
func (l *ls) networks() []string {
	path, err := l.findKey()
	if err != nil {
		return nil
	}
	key, err := readKey(path)
	if err != nil {
		return nil
	}
	return key.Networks()
}

func (l *ls) show(list []bridge.RemoteChannel) error {
	if l.asJSON {
		return l.ui.json(list)
	}
	if len(list) == 0 {
		return nil
	}
	rows := make([][]string, len(list))
	for i, c := range list {
		rows[i] = []string{c.Host + "/" + c.Channel, geometryText(c.FrameCount, c.FrameSize), mirroredText(c), addrsText(c.Addrs)}
	}
	return l.ui.table([]string{"CHANNEL", "FRAMES", "MIRRORED AS", "ADDRESS"}, rows)
}

// mirroredText is the name of the mirror, or why there can be none.
func mirroredText(c bridge.RemoteChannel) string {
	if c.Closed {
		return "not for this host"
	}
	return c.MirroredAs
}

// addrsText is the best address and how many more there are.
func addrsText(addrs []string) string {
	if len(addrs) < 2 {
		return strings.Join(addrs, "")
	}
	return fmt.Sprintf("%s (+%d)", addrs[0], len(addrs)-1)
}
