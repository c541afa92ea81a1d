package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
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

A running daemon is asked; without one the network is searched for --timeout,
which needs no key: whoever has one sees the hosts of that network only.`,
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
	jsonFlag(cmd, &l.asJSON)
	controlFlag(cmd, &l.control)
	return cmd
}

// ls is what the flags of `ls` ask for.
type ls struct {
	*app
	timeout    time.Duration
	interfaces []string
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
			"is achbridge run started over there? where multicast is blocked: achbridge run --peer HOST")
	}
	return nil
}

// ask asks the daemon, again and again until it knows something or the time is
// over: it may have been started a moment ago.
func (l *ls) ask(ctx context.Context, match address) (list []bridge.RemoteChannel, err error) {
	daemon := l.client(l.control)
	until(ctx, l.timeout, func() bool {
		_, err = daemon.get(ctx, "/v1/channels?match="+url.QueryEscape(match.host+"/"+match.channel), &list)
		return err != nil || len(list) > 0
	})
	return list, err
}

// search browses the network.
func (l *ls) search(ctx context.Context, match address) ([]bridge.RemoteChannel, error) {
	found, err := discovery.Browse(ctx, discovery.Config{Interfaces: l.interfaces}, l.timeout)
	if err != nil {
		return nil, failed(fmt.Errorf("searching the network: %w", err), "")
	}
	self := discovery.Peer{Network: l.network()}
	for _, p := range strangers(found, self) {
		l.ui.note("%s belongs to another network (it has another key) and is not shown", p.Host)
	}
	peers := members(found, self)
	for _, p := range peers {
		if len(p.Channels) == 0 {
			l.ui.note("%s is there and offers no channel", p.Host)
		}
		if p.More > 0 {
			l.ui.note("%s has %d more channels, which only a running daemon can list", p.Host, p.More)
		}
	}
	return match.filter(mergeChannels(nil, announcedChannels(peers))), nil
}

// network is the id of the network whose key is here, "" without a key.
func (l *ls) network() string {
	path, err := l.findKey()
	if err != nil {
		return ""
	}
	key, err := readKey(path)
	if err != nil {
		return ""
	}
	return key.Network()
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
		rows[i] = []string{c.Host + "/" + c.Channel, geometryText(c.FrameCount, c.FrameSize), c.MirroredAs, addrsText(c.Addrs)}
	}
	return l.ui.table([]string{"CHANNEL", "FRAMES", "MIRRORED AS", "ADDRESS"}, rows)
}

// addrsText is the best address and how many more there are.
func addrsText(addrs []string) string {
	if len(addrs) < 2 {
		return strings.Join(addrs, "")
	}
	return fmt.Sprintf("%s (+%d)", addrs[0], len(addrs)-1)
}
