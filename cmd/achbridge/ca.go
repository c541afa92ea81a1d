package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/ui"
)

func caCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "ca",
		Short:       "Manage an authority that gives each host its own key",
		Example:     examples("achbridge ca init", "achbridge ca issue krang"),
		Annotations: docs("docs/keys.md"),
	}
	cmd.AddCommand(caInitCommand(a), caIssueCommand(a), caListCommand(a), caRevokeCommand(a))
	return needsCommand(cmd)
}

func caFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "", "use the authority in `DIR` (default: see man page)")
	_ = cmd.MarkFlagDirname("dir")
}

// ca returns the authority's directory: given, or the default directory if given is empty.
func (a *app) ca(given string) (caDir, error) {
	if given != "" {
		return caDir(given), nil
	}
	path, err := a.CAPath()
	if err != nil {
		return "", ui.Usage(fmt.Errorf("authority: no directory for it: %w", err), "name one: --dir DIR")
	}
	return caDir(path), nil
}

// inCA adds --dir to cmd and makes cmd call run with the authority in that directory.
func (a *app) inCA(cmd *cobra.Command, run func(caDir, trust.Authority, []string) error) {
	var given string
	caFlag(cmd, &given)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		dir, err := a.ca(given)
		if err != nil {
			return err
		}
		authority, err := trust.ReadAuthority(dir.authority())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return ui.NotFound(fmt.Errorf("authority %s: not found", dir), "achbridge ca init, or name its directory: --dir DIR")
		case errors.Is(err, fs.ErrPermission):
			return ui.Usage(err, "chmod 600 "+dir.authority()+" as its owner")
		case err != nil:
			return ui.Usage(err, "take it from your copy")
		}
		return run(dir, authority, args)
	}
}

func caInitCommand(a *app) *cobra.Command {
	var given string
	cmd := &cobra.Command{
		Use:         "init",
		Short:       "Create an authority",
		Example:     examples("achbridge ca init", "achbridge ca init --dir /media/usb/ca"),
		Annotations: docs("docs/keys.md"),
		Args:        takes(),
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.ca(given)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(string(dir), 0o700); err != nil {
				return ui.Failure(err, "choose another place: --dir DIR")
			}
			authority, err := trust.NewAuthority(time.Now())
			if err != nil {
				return ui.Failure(err, "")
			}
			if err := authority.Write(dir.authority()); errors.Is(err, fs.ErrExist) {
				return ui.Failure(fmt.Errorf("authority %s: exists already", dir), "use it as it is, or choose another place: --dir DIR")
			} else if err != nil {
				return ui.Failure(err, "choose another place: --dir DIR")
			}
			return a.ui.Fields("network", authority.Network(), "path", string(dir))
		},
	}
	caFlag(cmd, &given)
	return cmd
}

func caIssueCommand(a *app) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:         "issue HOST",
		Short:       "Issue a key to one host, valid for one year",
		Example:     examples("achbridge ca issue krang", "achbridge ca issue krang -o keys/krang.key"),
		Annotations: docs("docs/keys.md"),
		Args:        takes("HOST"),
	}
	a.inCA(cmd, func(dir caDir, authority trust.Authority, args []string) error {
		key, err := authority.Issue(args[0], time.Now())
		if err != nil {
			return ui.Usage(err, "")
		}
		path := cmp.Or(out, args[0]+".key")
		// Record the certificate before writing its key: an unrecorded certificate cannot be revoked.
		if err := dir.record(caEntry{key.Serial(), key.Host(), key.Ends()}); err != nil {
			return ui.Failure(err, "")
		}
		if err := key.Write(path); err != nil {
			return ui.Failure(err, "choose another place: --out FILE")
		}
		return a.ui.Fields("host", key.Host(), "network", key.Network(), "ends", ui.Day(key.Ends()), "path", path)
	})
	cmd.Flags().StringVarP(&out, "out", "o", "", "write the key to a new `FILE` (default HOST.key)")
	return cmd
}

func caRevokeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "revoke HOST",
		Short:       "Revoke all keys of a host",
		Example:     examples("achbridge ca revoke krang", "achbridge ca revoke krang --dir /media/usb/ca"),
		Annotations: docs("docs/keys.md"),
		Args:        takes("HOST"),
	}
	a.inCA(cmd, func(dir caDir, authority trust.Authority, args []string) error {
		list, err := dir.revoke(authority, args[0], time.Now())
		if errors.Is(err, errNoneIssued) {
			return ui.Failure(fmt.Errorf("host %s: %w", args[0], err), "achbridge ca list shows those that were issued")
		} else if err != nil {
			return ui.Failure(err, "")
		}
		a.ui.Fields("host", args[0], "list", fmt.Sprint(list.Number()), "path", dir.revoked())
		a.ui.Note("copy it to one host, as key.revoked next to its key; that host passes it on to the others")
		return nil
	})
	return cmd
}

// caListed is one issued key in the JSON output of `ca list`.
type caListed struct {
	Host   string    `json:"host"`
	Serial string    `json:"serial"`
	Ends   time.Time `json:"ends"`
	State  string    `json:"state"` // valid, ended or revoked
}

func caListCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "list",
		Short:       "List the issued keys and show which are valid",
		Example:     examples("achbridge ca list", "achbridge ca list --json"),
		Annotations: docs("docs/keys.md"),
		Args:        takes(),
	}
	a.inCA(cmd, func(dir caDir, _ trust.Authority, _ []string) error {
		list, err := dir.list(time.Now())
		switch {
		case err != nil:
			return ui.Failure(err, "")
		case a.asJSON:
			return a.ui.JSON(list)
		case len(list) == 0:
			return ui.NotFound(fmt.Errorf("authority %s: it has issued no key", dir), "achbridge ca issue HOST")
		}
		var rows [][]string
		for _, k := range list {
			rows = append(rows, []string{k.Host, k.State, ui.Day(k.Ends), k.Serial})
		}
		return a.ui.Table([]string{"HOST", "STATE", "ENDS", "SERIAL"}, rows)
	})
	a.jsonFlag(cmd)
	return cmd
}
