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
		Use:               "explain HOST/CHANNEL",
		Short:             "Show which rule applies to a channel",
		Example:           examples("achbridge explain krang/imu", "achbridge explain krang/imu -c new.yaml"),
		Annotations:       docs("docs/configuration.md"),
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
	configFlag(cmd, &file, "explain configuration `FILE` (default: the daemon's)")
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
