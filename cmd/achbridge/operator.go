package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
)

func takeCommand(a *app) *cobra.Command {
	var limit time.Duration
	var force bool
	cmd := &cobra.Command{
		Use:         "take HOST/CHANNEL",
		Short:       "Take the operator lock of a channel of another host",
		Example:     examples("achbridge take krang/goal --for 10m", "achbridge take krang/goal --force"),
		Annotations: docs("docs/commands.md"),
		Args:        takes("HOST/CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := api.Take{Channel: args[0], Force: force}
			if cmd.Flags().Changed("for") {
				if limit <= 0 {
					return ui.Usage(fmt.Errorf("--for %v: want a time, as in 10m", limit), "")
				}
				request.For = limit.String()
			}
			var lock status.Lock
			if err := a.daemon().Post(cmd.Context(), "/v1/take", request, &lock); err != nil {
				return err
			}
			return show(a, lock, func(lock status.Lock) error {
				a.noteMissingPush(cmd.Context(), lock)
				return a.ui.Line("%s", holdsText(lock))
			})
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&limit, "for", 0, "hold it for `TIME` at most (default: without end)")
	cmd.Flags().BoolVar(&force, "force", false, "take it from another holder")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

// noteMissingPush prints a note if this host holds a lock but pushes nothing into the channel.
func (a *app) noteMissingPush(ctx context.Context, lock status.Lock) {
	var s api.StatusReply
	if _, err := a.daemon().Get(ctx, "/v1/status", &s); err != nil {
		return // the command itself has succeeded
	}
	if !slices.ContainsFunc(s.Pushes, func(p status.Push) bool { return p.Host == lock.Host && p.NameThere() == lock.Channel }) {
		a.ui.Note("this host pushes nothing into it yet: achbridge push CHANNEL %s/%s", lock.Host, lock.Channel)
	}
}

func releaseCommand(a *app) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:         "release HOST/CHANNEL",
		Short:       "Release the operator lock of a channel, or give it to a host",
		Example:     examples("achbridge release krang/goal", "achbridge release krang/goal --to planner"),
		Annotations: docs("docs/commands.md"),
		Args:        takes("HOST/CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var lock status.Lock
			if err := a.daemon().Post(cmd.Context(), "/v1/release", api.Release{Channel: args[0], To: to}, &lock); err != nil {
				return err
			}
			return show(a, lock, func(lock status.Lock) error { return a.ui.Line("%s", holdsText(lock)) })
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "give the lock to `HOST` until it ends (default nobody)")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

func whoCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "who [HOST/CHANNEL]",
		Short:       "Show who holds operator locks",
		Example:     examples("achbridge who", "achbridge who krang/goal"),
		Annotations: docs("docs/commands.md"),
		Args:        takes("[HOST/CHANNEL]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				var lock status.Lock
				if _, err := a.daemon().Get(cmd.Context(), "/v1/who?"+url.Values{"of": {args[0]}}.Encode(), &lock); err != nil {
					return err
				}
				return show(a, lock, func(lock status.Lock) error { return a.ui.Line("%s", holdsText(lock)) })
			}
			var s api.StatusReply
			if _, err := a.daemon().Get(cmd.Context(), "/v1/status", &s); err != nil {
				return err
			}
			return show(a, s.Locks, func(locks []status.Lock) error {
				if len(locks) == 0 {
					a.ui.Note("nobody holds a lock of this host, and this host pushes into no channel with an operator lock")
					return nil
				}
				return a.ui.Table(lockHeader, lockRows(locks))
			})
		},
	}
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

// holdsText describes who holds a lock.
func holdsText(l status.Lock) string {
	text := l.Host + "/" + l.Channel + ": " + l.Holder + " holds it"
	switch {
	case l.Holder == "":
		return l.Host + "/" + l.Channel + ": nobody holds it"
	case l.Mine:
		text = l.Host + "/" + l.Channel + ": this host holds it"
	}
	if l.HeldS >= 1 {
		text += " for " + ui.Seconds(l.HeldS)
	}
	if l.LeftS != nil {
		text += ", for " + ui.Seconds(*l.LeftS) + " more"
	}
	if l.State == "in_grace" {
		text += "; nothing comes from it now"
	}
	return text
}

// lockHeader is the header of the table of operator locks.
var lockHeader = []string{"LOCK", "HOLDER", "STATE", "HELD", "LEFT"}

func lockRows(locks []status.Lock) (rows [][]string) {
	for _, l := range locks {
		left, held := "", ""
		if l.LeftS != nil {
			left = ui.Seconds(*l.LeftS)
		}
		if l.Holder != "" {
			held = ui.Seconds(l.HeldS)
		}
		rows = append(rows, []string{l.Host + "/" + l.Channel, l.Holder, l.State, held, left})
	}
	return rows
}
