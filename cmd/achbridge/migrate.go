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
		Use:   "migrate SCRIPT",
		Short: "Make a configuration of a script for achd",
		Long: `Read a shell script, a crontab, a unit of systemd, or a file of inetd or xinetd, and print
the configuration that takes the place of its lines with achd. Nothing of the script is
run, and no file is written. - reads standard input.

What depends on a variable or a condition becomes a comment, which says why and what the
entry would be. Channels are not made by the configuration; for each ach mk there is a
comment with the command line that makes the channel.`,
		Example: "  achbridge migrate start.sh > achbridge.yaml\n  achbridge check achbridge.yaml\n  crontab -l | achbridge migrate -",
		Args:    takes("SCRIPT"),
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
