package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

func muxCommand(a *app) *cobra.Command {
	var end bool
	cmd := &cobra.Command{
		Use:               "mux OUTPUT [INPUT,KEY=VALUE...]",
		Short:             "Merge channels into one: the first live input wins",
		Example:           examples("achbridge mux ref teleop,expiry=sns planner,live=200ms --safe stop.bin", "achbridge mux ref"),
		Annotations:       docs("docs/commands.md"),
		Args:              takes("OUTPUT", "[INPUT...]"),
		ValidArgsFunction: a.channelNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case end && len(args) > 1:
				return ui.Usage(errors.New("mux: --off ends the mux of an output; give no inputs with it"), "")
			case end:
				return a.endMux(cmd.Context(), args[0])
			case len(args) == 1:
				return a.showMuxOf(cmd.Context(), args[0])
			}
			request, err := muxRequest(args, cmd.Flags())
			if err != nil {
				return ui.Usage(err, "")
			}
			var output status.Mirror
			if err := a.daemon().Post(cmd.Context(), "/v1/mux", request, &output); err != nil {
				return err
			}
			return a.showMux(output)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().String("safe", "", "put the frame in `FILE` when no input is live (default none)")
	cmd.Flags().String("hold", "0s", "let an input win again after `TIME` live")
	cmd.Flags().Bool("catch-up", false, "put the last live frame of an input when it begins to win")
	cmd.Flags().Bool("meta", false, "write the winning input to channel OUTPUT.meta")
	cmd.Flags().BoolVar(&end, "off", false, "end the mux; its output stays")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

// muxRequest returns the request for a mux from the arguments and the flags.
func muxRequest(args []string, given *pflag.FlagSet) (api.MuxRequest, error) {
	m, err := rule.ParseMux(strings.Join(args, " "), config.ReadFile)
	given.Visit(func(f *pflag.Flag) {
		key := strings.ReplaceAll(f.Name, "-", "_")
		if key == "safe" || key == "hold" || key == "catch_up" || key == "meta" {
			if bad := m.Set(key, f.Value.String(), config.ReadFile); bad != nil {
				err = errors.Join(err, fmt.Errorf("mux: --%s %w", f.Name, rule.WithoutKey(bad)))
			}
		}
	})
	if err == nil {
		err = m.Check()
	}
	request := api.MuxRequest{SafeFile: m.Safe.File, SafeFrame: []byte(m.Safe.Frame)}
	m.Safe = rule.OnStale{}
	request.Rule = m.String()
	return request, err
}

func (a *app) endMux(ctx context.Context, output string) error {
	if err := a.daemon().Post(ctx, "/v1/unmux", api.UnmuxRequest{Output: output}, &struct{}{}); err != nil {
		return err
	}
	return a.ui.Line("no mux writes %s any more; the channel stays", output)
}

// showMuxOf shows the mux with an output.
func (a *app) showMuxOf(ctx context.Context, output string) error {
	var s api.StatusReply
	if _, err := a.daemon().Get(ctx, "/v1/status", &s); err != nil {
		return err
	}
	for _, m := range s.Mirrors {
		if m.Name == output && m.Mux != nil {
			return a.showMux(m)
		}
	}
	return ui.NotFound(fmt.Errorf("no mux has the output %s", output), "give its inputs: achbridge mux "+output+" INPUT,live=200ms …")
}

// showMux shows the output of a mux and its inputs.
func (a *app) showMux(output status.Mirror) error {
	if a.asJSON {
		return a.ui.JSON(output)
	}
	if output.State == status.MirrorLive {
		a.ui.Line("%s", diagnose.MuxText(output))
	} else {
		a.ui.Line("%s: %s", output.Name, output.Reason)
	}
	rows := make([][]string, 0, len(output.Mux.Inputs))
	for _, in := range output.Mux.Inputs {
		rows = append(rows, []string{in.Channel, in.State, strconv.FormatUint(in.Frames, 10), strconv.FormatUint(in.Put, 10), strconv.FormatUint(in.Refused, 10), in.Reason})
	}
	a.ui.Line("")
	return a.ui.Table([]string{"INPUT", "STATE", "FRAMES", "PUT", "REFUSED", "NOTE"}, rows)
}
