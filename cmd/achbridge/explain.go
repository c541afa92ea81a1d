package main

import (
	"cmp"
	"errors"
	"net/url"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

func explainCommand(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "explain HOST/CHANNEL",
		Short: "Say which rule applies to a channel",
		Long: `Say which rule of the configuration applies to a channel, and where the rule and
each value come from: a line of the file, a flag, the environment, the default.
For a channel of this host (its name alone is enough) it says who may read it, where
it is pushed, and who may push into it. For a channel of another host, or the name of a
mirror, it says whether and how it is mirrored here. The channel need not exist.

A running daemon answers, since it knows its flags and the wishes of achbridge mirror.
Without a daemon, or with --config, the file is read.`,
		Example:           "  achbridge explain krang/imu\n  achbridge explain goal",
		Args:              takes("HOST/CHANNEL"),
		ValidArgsFunction: a.remoteNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := a.explanation(cmd, args[0], file)
			if err != nil {
				return err
			}
			return show(a, e, a.showExplanation)
		},
	}
	configFlag(cmd, &file, "explain this configuration `FILE`, not the daemon's")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

func (a *app) explanation(cmd *cobra.Command, channel, file string) (e config.Explanation, err error) {
	if file == "" {
		_, err = a.daemon().Get(cmd.Context(), "/v1/explain?channel="+url.QueryEscape(a.mirrorMeant(cmd.Context(), a.daemon(), channel)), &e)
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
	for _, v := range e.Verdicts {
		rows = append(rows, []string{v.Verb, v.Result, v.Rule, v.From})
		for _, o := range v.Options {
			options = append(options, []string{v.Verb, o.Option, o.Value, o.From})
		}
	}
	a.ui.Line("")
	if err := a.ui.Table([]string{"VERB", "RESULT", "RULE", "FROM"}, rows); err != nil || len(options) == 0 {
		return err
	}
	a.ui.Line("")
	return a.ui.Table([]string{"VERB", "OPTION", "VALUE", "FROM"}, options)
}
