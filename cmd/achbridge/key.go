package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/status"
	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

func keyCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "key",
		Short:       "Create, show or change the network key",
		Example:     examples("achbridge key new", "achbridge key show"),
		Annotations: docs("docs/keys.md"),
	}
	cmd.AddCommand(keyNewCommand(a), keyShowCommand(a))
	cmd.AddCommand(keyChangeCommands(a)...)
	return needsCommand(cmd)
}

func keyNewCommand(a *app) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:         "new",
		Short:       "Create a network key",
		Example:     examples("achbridge key new", "achbridge key new --key ./key"),
		Annotations: docs("docs/keys.md"),
		Args:        takes(),
		RunE: func(*cobra.Command, []string) error {
			path, err := a.keyFile(path, a.KeyPath)
			if err != nil {
				return err
			}
			if err := a.MakeKeyFolder(path); err != nil {
				return err
			}
			key := trust.NewKey()
			if err := key.Write(path); errors.Is(err, fs.ErrExist) {
				return ui.Failure(fmt.Errorf("key %s: exists already", path),
					"keep using it, or remove the file first: then hosts with the old key are strangers")
			} else if err != nil {
				return ui.Failure(err, "choose another place: --key FILE")
			}
			return a.ui.Fields("network", key.Network(), "path", path)
		},
	}
	keyFlag(cmd, &path)
	return cmd
}

// keyShown is the JSON output of `key show`.
type keyShown struct {
	Network string `json:"network"`
	Also    string `json:"also,omitempty"` // network of the second key
	Host    string `json:"host,omitempty"` // the only host that may use the key; empty for a shared key
	Ends    string `json:"ends,omitempty"` // the day on which the certificate of the key ends
	Path    string `json:"path"`
	Secret  string `json:"secret,omitempty"`
}

func keyShowCommand(a *app) *cobra.Command {
	var path string
	var secret bool
	cmd := &cobra.Command{
		Use:         "show",
		Short:       "Show the network id and the path of the key",
		Example:     examples("achbridge key show", "achbridge key show --secret | ssh pc 'umask 077; cat > .config/achbridge/key'"),
		Annotations: docs("docs/keys.md"),
		Args:        takes(),
		RunE: func(*cobra.Command, []string) error {
			open := a.openKey
			if secret {
				open = a.openKeyFile
			}
			key, path, err := open(path)
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
			case a.asJSON:
				return a.ui.JSON(shown)
			case secret:
				return a.ui.Line("%s", shown.Secret)
			}
			return a.showKey(shown)
		},
	}
	keyFlag(cmd, &path)
	cmd.Flags().BoolVar(&secret, "secret", false, "print the key itself instead of its network id")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) showKey(k keyShown) error {
	return a.ui.Fields("network", k.Network, "also", k.Also, "host", k.Host, "ends", k.Ends, "path", k.Path)
}

func keyFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "key", "", "use key `FILE` (default: see man page)")
	_ = cmd.MarkFlagFilename("key")
}

// keyFile returns given, if it is not empty, else the key file that the environment or the configuration names, as for the daemon,
// else the path that find returns.
func (a *app) keyFile(given string, find func() (string, error)) (string, error) {
	return a.KeyFile(a.namedKey(given), find)
}

// namedKey returns given, if it is not empty, else the key file of the configuration.
func (a *app) namedKey(given string) string {
	if given == "" {
		if c, err := a.Source("", nil).Load(); err == nil {
			return c.Key
		} // a configuration with an error does not matter here: a.KeyFile and a.Key still ask the environment
	}
	return given
}

// openKey reads the key file given, or if given is empty the key that the daemon would use. The path is "" for a key
// that is in the environment.
func (a *app) openKey(given string) (key trust.Key, path string, err error) {
	return a.Key(a.namedKey(given), a.FindKey)
}

// openKeyFile is openKey for a command that needs a file.
func (a *app) openKeyFile(given string) (key trust.Key, path string, err error) {
	key, path, err = a.openKey(given)
	if err == nil && path == "" {
		err = ui.Usage(fmt.Errorf("key: it is in %s, not in a file", config.KeyText), "unset "+config.KeyText+", and name the file: --key FILE")
	}
	return key, path, err
}

// keyChangeCommands returns the commands add, swap and drop, the three steps that change a network's key.
func keyChangeCommands(a *app) []*cobra.Command {
	drop := a.keyChange("drop", "Remove the second key; a host that has only that key loses access", "there is nothing to remove", trust.Key.Drop)
	a.warnOfUnlinkable(drop)
	return []*cobra.Command{
		a.keyChange("add", "Add a second key, which is valid but not used yet", "one change of keys at a time: finish it with achbridge key swap and achbridge key drop",
			func(k trust.Key) (trust.Key, error) { return k.Add(trust.NewKey()) }),
		a.keyChange("swap", "Use the second key and keep the first one valid", "begin with achbridge key add", trust.Key.Swap),
		drop,
	}
}

// relinkTime is how long linked hosts may take to link again after a key was dropped.
// The daemons check their key files every second.
const relinkTime = 8 * time.Second

// warnOfUnlinkable makes drop wait for the linked hosts to link again with the remaining key,
// and print a note for each that does not. That requires a running daemon that uses the key file.
func (a *app) warnOfUnlinkable(drop *cobra.Command) {
	a.controlFlag(drop)
	change := drop.RunE
	drop.RunE = func(cmd *cobra.Command, args []string) error {
		c := a.daemon()
		var before api.StatusReply
		_, unknown := c.Get(cmd.Context(), "/v1/status", &before)
		if err := change(cmd, args); err != nil {
			return err
		}
		key, path, err := a.openKey(cmd.Flag("key").Value.String())
		if err != nil || unknown != nil || !a.daemonHas(cmd.Context(), c, path) {
			return err
		}
		unlinkable := linkedHosts(before)
		api.Until(cmd.Context(), relinkTime, func() bool {
			var now api.StatusReply
			if _, err := c.Get(cmd.Context(), "/v1/status", &now); err != nil {
				return true
			}
			for _, p := range now.Peers {
				if p.Network == key.Network() {
					delete(unlinkable, p.Node)
				}
			}
			return len(unlinkable) == 0
		})
		for _, host := range slices.Sorted(maps.Values(unlinkable)) {
			a.ui.Note("%s has only the old key and is an unknown peer now; copy %s to it", host, path)
		}
		return nil
	}
}

// daemonHas reports whether the daemon uses the key file at path.
func (a *app) daemonHas(ctx context.Context, c *api.Client, path string) bool {
	var setup api.DaemonSetup
	_, err := c.Get(ctx, "/v1/setup", &setup)
	return err == nil && setup.Key == config.Absolute(path)
}

// linkedHosts returns the names of the linked hosts by node id.
func linkedHosts(s api.StatusReply) map[string]string {
	hosts := map[string]string{}
	for _, p := range s.Peers {
		if p.State == status.PeerLinked {
			hosts[p.Node] = p.Host
		}
	}
	return hosts
}

// keyChange returns a command that replaces the key file with the result of change. cure is the fix printed if change fails.
func (a *app) keyChange(use, short, fix string, change func(trust.Key) (trust.Key, error)) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:         use,
		Short:       short,
		Example:     examples("achbridge key "+use, "achbridge key "+use+" --key ./key"),
		Annotations: docs("docs/keys.md"),
		Args:        takes(),
		RunE: func(*cobra.Command, []string) error {
			key, path, err := a.openKeyFile(path)
			if err != nil {
				return err
			}
			if key, err = change(key); err != nil {
				return ui.Failure(fmt.Errorf("key %s: %w", path, err), fix)
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
