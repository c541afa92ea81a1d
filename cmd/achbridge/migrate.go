package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/migrate"
	"achbridge/cmd/achbridge/ui"
)

func migrateCommand(a *app) *cobra.Command {
	names := map[string]string{}
	cmd := &cobra.Command{
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
			text, found, err := migrate.Translate(migrate.Script{Name: name, Text: script, Hosts: names})
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
	cmd.Flags().Func("name", "`ADDRESS=HOST`: that host runs achbridge (default achd)", func(text string) error {
		address, host, _ := strings.Cut(text, "=")
		if _, err := netip.ParseAddr(address); err != nil || !migrate.IsHostName(host) {
			return errors.New("want ADDRESS=HOST, as in 10.0.0.7=krang")
		}
		names[address] = host
		return nil
	})
	return cmd
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
