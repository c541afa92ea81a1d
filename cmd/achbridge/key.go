package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

func keyCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make or show the network key",
		Long: `Every host that holds the same key is a member of the same network; a host
without it can neither read nor write. (achbridge ca gives every host a key of its
own instead.) The key is one small file, mode 0600:
` + config.SystemKey + ` for root, else $XDG_CONFIG_HOME/achbridge/key.

Make it once, then copy the file to every host of the network:

  achbridge key new
  scp ~/.config/achbridge/key pc:.config/achbridge/key

To change the key of hosts that go on working, in three steps; each is done on
one host, and its file copied to all the others before the next one begins:

  achbridge key add     a second key: both are good, this one is not yet used
  achbridge key swap    the second key is used, the old one still good
  achbridge key drop    the old key is good no more

A running daemon takes the changed file within seconds. Links go on while both
ends have a key in common; one that was made by a key which is dropped is made
anew at once.`,
	}
	cmd.AddCommand(keyNewCommand(a), keyShowCommand(a))
	cmd.AddCommand(keyChangeCommands(a)...)
	return needsVerb(cmd)
}

func keyNewCommand(a *app) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make a network key; never overwrites one",
		Args:  takes(),
		RunE: func(*cobra.Command, []string) error {
			path, err := a.KeyFile(path, a.KeyPath)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return ui.Failure(err, "choose another place: --key FILE")
			}
			key := trust.NewKey()
			if err := key.Write(path); errors.Is(err, fs.ErrExist) {
				return ui.Failure(fmt.Errorf("key %s: exists already", path),
					"use it as it is, or remove the file first: hosts with the old key are then strangers")
			} else if err != nil {
				return ui.Failure(err, "choose another place: --key FILE")
			}
			return a.ui.Fields("network", key.Network(), "path", path)
		},
	}
	keyFlag(cmd, &path)
	return cmd
}

// keyShown is what `key show --json` prints.
type keyShown struct {
	Network string `json:"network"`
	Also    string `json:"also,omitempty"` // the network of the second key
	Host    string `json:"host,omitempty"` // the only one that the key is for
	Ends    string `json:"ends,omitempty"` // the day on which it does
	Path    string `json:"path"`
	Secret  string `json:"secret,omitempty"`
}

func keyShowCommand(a *app) *cobra.Command {
	var path string
	var secret, asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show which network the key belongs to",
		Long: `Show the network id (public: hosts with the same id have the same key) and the
path of the key. While the key is being changed there are two: the first is used,
also names the other. With --secret print the key itself, as text that is the whole
content of a key file, so that it can be carried to another host by copy and
paste or through a pipe. Whoever reads it is a member:

  achbridge key show --secret | ssh pc 'umask 077; cat > .config/achbridge/key'`,
		Args: takes(),
		RunE: func(*cobra.Command, []string) error {
			key, path, err := a.openKey(path)
			if err != nil {
				return err
			}
			shown := shownKey(key, path)
			if secret {
				text, err := os.ReadFile(path)
				if err != nil {
					return ui.Failure(err, "")
				}
				shown.Secret = strings.TrimSpace(string(text))
			}
			switch {
			case asJSON:
				return a.ui.JSON(shown)
			case secret:
				return a.ui.Line("%s", shown.Secret)
			}
			return a.showKey(shown)
		},
	}
	keyFlag(cmd, &path)
	cmd.Flags().BoolVar(&secret, "secret", false, "print the key itself")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) showKey(k keyShown) error {
	return a.ui.Fields("network", k.Network, "also", k.Also, "host", k.Host, "ends", k.Ends, "path", k.Path)
}

func keyFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "key", "", "key `FILE`")
	_ = cmd.MarkFlagFilename("key")
}

// openKey reads the key file that is given, else the one that is found.
func (a *app) openKey(given string) (key trust.Key, path string, err error) {
	if path, err = a.KeyFile(given, a.FindKey); err != nil {
		return key, path, err
	}
	key, err = config.ReadKey(path)
	return key, path, err
}

// keyChangeCommands are the three steps of a change of keys.
func keyChangeCommands(a *app) []*cobra.Command {
	return []*cobra.Command{
		a.keyChange("add", "Put a second key into the file: good, but not yet used", "one change of keys at a time: finish it with achbridge key swap and achbridge key drop",
			func(k trust.Key) (trust.Key, error) { return k.Add(trust.NewKey()) }),
		a.keyChange("swap", "Use the second key of the file; the first one stays good", "begin with achbridge key add", trust.Key.Swap),
		a.keyChange("drop", "Remove the second key from the file: whoever has that alone is a stranger", "there is nothing to remove", trust.Key.Drop),
	}
}

// keyChange is a command that makes the content of the key file another.
func (a *app) keyChange(use, short, cure string, change func(trust.Key) (trust.Key, error)) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  short + ".\nSee achbridge key --help for the three steps of a change of keys.",
		Args:  takes(),
		RunE: func(*cobra.Command, []string) error {
			key, path, err := a.openKey(path)
			if err != nil {
				return err
			}
			if key, err = change(key); err != nil {
				return ui.Failure(fmt.Errorf("key %s: %w", path, err), cure)
			}
			if err := key.Replace(path); err != nil {
				return ui.Failure(err, "run it as the owner of the file")
			}
			return a.showKey(shownKey(key, path))
		},
	}
	keyFlag(cmd, &path)
	return cmd
}

func shownKey(key trust.Key, path string) keyShown {
	shown := keyShown{Network: key.Network(), Host: key.Host(), Path: path}
	if !key.Ends().IsZero() {
		shown.Ends = ui.Day(key.Ends())
	}
	if all := key.Networks(); len(all) > 1 {
		shown.Also = all[1]
	}
	return shown
}
