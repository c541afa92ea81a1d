package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"achbridge/bridge/transport"
)

// keyChangeCommands are the three steps of a change of keys.
func keyChangeCommands(a *app) []*cobra.Command {
	return []*cobra.Command{
		a.keyChange("add", "Put a second key into the file: good, but not yet used", "one change of keys at a time: finish it with achbridge key swap and achbridge key drop",
			func(k transport.Key) (transport.Key, error) { return k.Add(transport.NewKey()) }),
		a.keyChange("swap", "Use the second key of the file; the first one stays good", "begin with achbridge key add", transport.Key.Swap),
		a.keyChange("drop", "Remove the second key from the file: whoever has that alone is a stranger", "there is nothing to remove", transport.Key.Drop),
	}
}

// keyChange is a command that makes the content of the key file another.
func (a *app) keyChange(use, short, cure string, change func(transport.Key) (transport.Key, error)) *cobra.Command {
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
				return failed(fmt.Errorf("key %s: %w", path, err), cure)
			}
			if err := key.Replace(path); err != nil {
				return failed(err, "run it as the owner of the file")
			}
			return a.showKey(shownKey(key, path))
		},
	}
	keyFlag(cmd, &path)
	return cmd
}

func shownKey(key transport.Key, path string) keyShown {
	shown := keyShown{Network: key.Network(), Host: key.Host(), Path: path}
	if !key.Ends().IsZero() {
		shown.Ends = dayOf(key.Ends())
	}
	if all := key.Networks(); len(all) > 1 {
		shown.Also = all[1]
	}
	return shown
}
