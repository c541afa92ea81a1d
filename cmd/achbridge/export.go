package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/export"
	"achbridge/cmd/achbridge/recording"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/view"
)

func exportCommand(a *app) *cobra.Command {
	var of valueFlags
	var csv, mcap bool
	var c export.Config
	cmd := &cobra.Command{
		Use:         "export FILE [PATTERN...] --csv|--mcap",
		Short:       "Export values from a recording for other programs",
		Example:     examples("achbridge export run.mcap 'krang.*' --csv --field gyro -o values", "achbridge export run.mcap --mcap"),
		Annotations: docs("docs/recording.md"),
		Args:        takes("FILE", "[PATTERN]..."),
		PreRunE: func(_ *cobra.Command, args []string) error {
			switch {
			case !csv && !mcap:
				return ui.Usage(errors.New("export: no format is named"), "achbridge rec export "+args[0]+" --csv")
			case csv && mcap:
				return ui.Usage(errors.New("--csv and --mcap: choose one"), "")
			case mcap && of.fields != nil:
				return ui.Usage(errors.New("--field is for --csv: --mcap writes whole messages"), "")
			case mcap:
				c.Form = export.MCAP
			}
			return view.CheckPatterns(args[1:])
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			c.File, c.Patterns, c.Fields, c.Note = args[0], args[1:], of.fields, a.ui.Note
			c.Dir = cmp.Or(c.Dir, strings.TrimSuffix(filepath.Base(c.File), filepath.Ext(c.File)))
			if c.Layout, err = a.recorded(c.File, &of); err != nil {
				return err
			}
			return a.export(cmd.Context(), c)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&csv, "csv", false, "write CSV, one file per channel")
	cmd.Flags().BoolVar(&mcap, "mcap", false, "write one MCAP file of protobuf messages")
	cmd.Flags().StringVarP(&c.Dir, "out", "o", "", "write files into `DIR` (default: named after FILE)")
	cmd.Flags().BoolVar(&c.Force, "force", false, "overwrite existing files")
	cmd.Flags().StringSliceVar(&of.fields, "field", nil, "write only `FIELD`, as in gyro.z; repeatable (default all)")
	of.defineType(cmd)
	return cmd
}

// recorded returns a function that returns the layout of a recorded channel. --type comes
// first, then the layout in the recording, then the configuration.
func (a *app) recorded(file string, of *valueFlags) (func(recording.Topic) (*layout.Layout, error), error) {
	find, err := a.Layouts(of.file)
	if err != nil {
		return nil, err
	}
	return func(t recording.Topic) (*layout.Layout, error) {
		if of.file == "" && t.Type != nil && t.Type.Layout != "" {
			l, err := config.ReadLayout(file, []byte(t.Type.Layout))
			if err != nil { // do not print err: its text quotes the file, which may contain terminal escapes
				return nil, ui.Failure(fmt.Errorf("%s: its layout is damaged", file), "name another: --type FILE")
			}
			return l, nil
		}
		return find(cmp.Or(t.Origin, t.Channel), t.Channel)
	}, nil
}

// export runs c and prints each file that it wrote.
func (a *app) export(ctx context.Context, c export.Config) error {
	made, err := c.Run(ctx)
	for _, m := range made {
		a.ui.Line("%s: %s", m.Path, countText(m.Frames, "frame"))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, export.ErrNothing):
		return ui.NotFound(fmt.Errorf("%s: %w", c.File, err), "see what it has: achbridge rec info "+c.File)
	case errors.Is(err, export.ErrNoLayout):
		return ui.NotFound(fmt.Errorf("%s: %w", c.File, err), "name one: --type FILE, or types: in the configuration")
	case errors.Is(err, export.ErrExists):
		return ui.Failure(err, "--force replaces it, --out DIR writes elsewhere")
	case ui.Fix(err) != "":
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, recording.ErrFormat):
		return fileError(c.File, err)
	}
	return ui.Failure(err, "")
}
