package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

func explainCommand(a *app) *cobra.Command {
	var control, file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain HOST/CHANNEL",
		Short: "Say which rule applies to a channel",
		Long: `Say which rule of the configuration applies to a channel, and where the rule and
each value come from: a line of the file, a flag, the environment, the default.
Of a channel of this host (its name without HOST/ will do) it says who may read
it, where it is pushed, and who may push into it; of one of another host, whether
and how it is mirrored here. The channel need not be there.

A running daemon is asked, which knows its flags and what achbridge mirror has
asked for; without one, or with --config, the file is read.`,
		Example:           "  achbridge explain krang/imu\n  achbridge explain goal",
		Args:              takes("HOST/CHANNEL"),
		ValidArgsFunction: a.remoteNames(&control),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := a.explanation(cmd, args[0], control, file)
			if err != nil {
				return err
			}
			if asJSON {
				return a.ui.json(e)
			}
			return a.showExplanation(e)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "explain this configuration `FILE`, not the daemon's")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	jsonFlag(cmd, &asJSON)
	controlFlag(cmd, &control)
	return cmd
}

// explanation is what explain answers.
type explanation struct {
	Channel  string    `json:"channel"` // HOST/CHANNEL
	File     string    `json:"file"`    // of the configuration; empty: there is none
	Verdicts []verdict `json:"verdicts"`
}

func (a *app) explanation(cmd *cobra.Command, channel, control, file string) (e explanation, err error) {
	if file == "" {
		_, err = a.client(control).get(cmd.Context(), "/v1/explain?channel="+url.QueryEscape(channel), &e)
		if !errors.Is(err, errNoDaemon) {
			return e, err
		}
		a.ui.note("no daemon is running; this is what the configuration says")
	}
	c, err := a.source(file, nil).load()
	if err != nil {
		return e, err
	}
	e, err = c.explain(channel, nil)
	if err != nil {
		return e, misused(err, "")
	}
	return e, nil
}

// explain answers for HOST/CHANNEL, or CHANNEL of this host.
func (c *config) explain(channel string, wish wishFunc) (explanation, error) {
	if !strings.Contains(channel, "/") {
		channel = c.Name + "/" + channel
	}
	at, err := parseAddress(channel)
	if err != nil || strings.ContainsAny(at.String(), `*?[\`) {
		return explanation{}, fmt.Errorf("%q: want HOST/CHANNEL, as in krang/imu", channel)
	}
	return explanation{at.String(), c.path, c.verdicts(at.host, at.channel, wish)}, nil
}

func (a *app) showExplanation(e explanation) error {
	if err := a.ui.fields("channel", e.Channel, "config", cmp.Or(e.File, "no file")); err != nil {
		return err
	}
	rows, options := [][]string{}, [][]string{}
	for _, v := range e.Verdicts {
		rows = append(rows, []string{v.Verb, v.Result, v.Rule, v.From})
		for _, o := range v.Options {
			options = append(options, []string{v.Verb, o.Option, o.Value, o.From})
		}
	}
	if err := a.ui.line(""); err != nil {
		return err
	}
	if err := a.ui.table([]string{"VERB", "RESULT", "RULE", "FROM"}, rows); err != nil || len(options) == 0 {
		return err
	}
	if err := a.ui.line(""); err != nil {
		return err
	}
	return a.ui.table([]string{"VERB", "OPTION", "VALUE", "FROM"}, options)
}
