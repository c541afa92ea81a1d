package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
)

func putCommand(a *app) *cobra.Command {
	var changes, expected []string
	cmd := &cobra.Command{
		Use:         "put HOST/CHANNEL",
		Short:       "Change fields of a channel's newest frame on its host",
		Example:     examples("achbridge put krang/gains --field kp=1.2", "achbridge put krang/gains --field joints[2].kp=1.2 --expect joints[2].kp=1"),
		Annotations: docs("docs/commands.md"),
		Args:        takes("HOST/CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(changes) == 0 {
				return ui.Usage(errors.New("put: no field to change"), "as in --field kp=1.2")
			}
			request := api.Put{Channel: args[0]}
			for _, list := range []struct {
				flag   string
				values []string
			}{{"field", changes}, {"expect", expected}} {
				for _, text := range list.values {
					path, value, ok := strings.Cut(text, "=")
					if !ok || path == "" {
						return ui.Usage(fmt.Errorf("--%s %s: want FIELD=VALUE, as in kp=1.2", list.flag, text), "")
					}
					request.Fields = append(request.Fields, api.FieldEdit{Path: path, Value: value, Expect: list.flag == "expect"})
				}
			}
			var e status.Edit
			err := a.daemon().Post(cmd.Context(), "/v1/put", request, &e)
			if errors.Is(err, api.ErrNoReply) || errors.Is(err, context.Canceled) {
				return ui.Unknown(fmt.Errorf("put %s: unknown: the frame may have been put: %w", args[0], err), "see the newest frame: achbridge echo "+args[0])
			}
			if err != nil {
				return err
			}
			return show(a, e, func(e status.Edit) error { return a.ui.Line("%s", editText(e)) })
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringArrayVar(&changes, "field", nil, "set `FIELD=VALUE`; may be repeated (required)")
	cmd.Flags().StringArrayVar(&expected, "expect", nil, "put only if `FIELD=VALUE` now; may be repeated (default none)")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

// editText describes the frame that was put.
func editText(e status.Edit) string {
	text := fmt.Sprintf("%s/%s: frame %d", e.Host, e.Channel, e.Seq)
	for _, f := range e.Fields {
		text += fmt.Sprintf(", %s %s -> %s", f.Field, f.Before, f.After)
	}
	return text + ", put within " + ui.Millis(e.AnswerMs)
}
