package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
)

func reloadCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "reload",
		Short:       "Make the daemon read its configuration again",
		Example:     examples("achbridge reload", "achbridge reload --json"),
		Annotations: docs("docs/configuration.md"),
		Args:        takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var r api.ReloadReply
			if err := a.daemon().Post(cmd.Context(), "/v1/reload", struct{}{}, &r); err != nil {
				return err
			}
			return show(a, r, a.showReload)
		},
	}
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

func (a *app) showReload(r api.ReloadReply) error {
	text := "nothing changed"
	if len(r.Changed) > 0 {
		text = "in effect now: " + strings.Join(r.Changed, ", ")
	}
	a.ui.Line("%s: %s", cmp.Or(r.File, "no configuration file"), text)
	if len(r.Restart) > 0 {
		a.ui.Note("%s changed too, which takes effect when the daemon is started again", ui.AndList(r.Restart))
	}
	for _, w := range r.Warnings {
		a.ui.Note("%s", w)
	}
	return nil
}
