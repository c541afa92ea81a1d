package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"achbridge/bridge/transport"
)

func keyCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make or show the network key",
		Long: `Every host that holds the same key is a member of the same network; a host
without it can neither read nor write. (achbridge ca gives every host a key of its
own instead.) The key is one small file, mode 0600:
` + systemKey + ` for root, else $XDG_CONFIG_HOME/achbridge/key.

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
			path, err := a.keyFile(path, a.keyPath)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return failed(err, "choose another place: --key FILE")
			}
			key := transport.NewKey()
			if err := key.Write(path); errors.Is(err, fs.ErrExist) {
				return failed(fmt.Errorf("key %s: exists already", path),
					"use it as it is, or remove the file first: hosts with the old key are then strangers")
			} else if err != nil {
				return failed(err, "choose another place: --key FILE")
			}
			return a.ui.fields("network", key.Network(), "path", path)
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
					return failed(err, "")
				}
				shown.Secret = strings.TrimSpace(string(text))
			}
			switch {
			case asJSON:
				return a.ui.json(shown)
			case secret:
				return a.ui.line("%s", shown.Secret)
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
	return a.ui.fields("network", k.Network, "also", k.Also, "host", k.Host, "ends", k.Ends, "path", k.Path)
}

func keyFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "key", "", "key `FILE`")
	_ = cmd.MarkFlagFilename("key")
}

// keyFile is the path given on the command line, else the one that find gives.
func (a *app) keyFile(given string, find func() (string, error)) (string, error) {
	if given != "" {
		return given, nil
	}
	path, err := find()
	if err != nil {
		return "", misused(fmt.Errorf("key: no place for it: %w", err), "name the file: --key FILE")
	}
	return path, nil
}

// openKey reads the key file that is given, else the one that is found.
func (a *app) openKey(given string) (key transport.Key, path string, err error) {
	if path, err = a.keyFile(given, a.findKey); err != nil {
		return key, path, err
	}
	key, err = readKey(path)
	return key, path, err
}

// readKey reads the network key; its errors say how to get one.
func readKey(path string) (transport.Key, error) {
	key, err := transport.ReadKey(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return key, misused(fmt.Errorf("key %s: there is none", path),
			"achbridge key new, or copy the file from a host of your network")
	case errors.Is(err, fs.ErrPermission):
		return key, misused(err, "chmod 600 "+path+" as its owner, or name your own: --key FILE")
	case err != nil:
		return key, misused(err, "copy the file again from a host of your network")
	}
	return key, nil
}
