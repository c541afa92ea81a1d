package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/migrate"
	"achbridge/cmd/achbridge/ui"
)

func migrateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:         "migrate SCRIPT",
		Short:       "Convert an achd script to a configuration file",
		Example:     examples("achbridge migrate start.sh > achbridge.yaml", "crontab -l | achbridge migrate -"),
		Annotations: docs("docs/migrating.md"),
		Args:        takes("SCRIPT"),
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			script, err := a.readScript(name)
			if err != nil {
				return fileError(name, err)
			}
			if name == "-" {
				name = "standard input"
			}
			text, found, err := migrate.Translate(name, script)
			switch {
			case err != nil:
				return ui.Failure(fmt.Errorf("%s: %w", name, err), "")
			case !found:
				return ui.NotFound(fmt.Errorf("%s: no line in it calls achd or ach", name), "name the script, crontab or inetd.conf that does")
			}
			_, err = a.ui.Out.Write(text)
			return err
		},
	}
}

// readScript reads a file, or standard input if name is "-". It reads at most migrate.MaxScript+1
// bytes, enough to detect a script that is too large.
func (a *app) readScript(name string) ([]byte, error) {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	if in == nil {
		return nil, errors.New("standard input is closed")
	}
	return io.ReadAll(io.LimitReader(in, migrate.MaxScript+1))
}
