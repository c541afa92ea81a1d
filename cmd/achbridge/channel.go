package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

func channelCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "channel",
		Aliases: []string{"ch"},
		Short:   "Create, read and write channels of this host",
		Long: `Create, remove, inspect, write and read the Ach channels of this host. That needs no
daemon and no key. Every program that uses libach sees the same channels.`,
		Example: `  achbridge ch create imu --frames 16 --size 64
  achbridge ch put imu hello
  achbridge ch cat imu --last`,
	}
	cmd.AddCommand(
		channelCreateCommand(a), channelRmCommand(a), channelLsCommand(a), channelInfoCommand(a),
		channelPutCommand(a), channelCatCommand(a), channelHzCommand(a),
	)
	return needsVerb(cmd)
}

// open opens a channel of this host; its errors carry a cure.
func (a *app) open(name string) (*localach.Channel, error) {
	ch, err := a.dir().Open(name)
	if err != nil {
		return nil, a.channelError(name, err)
	}
	return ch, nil
}

// channelError says what to do about an error of localach.
func (a *app) channelError(name string, err error) error {
	anew := fmt.Sprintf("achbridge channel create %s --replace", name)
	switch {
	case ui.ExitCode(err) == ui.ExitUsage, ui.Cure(err) != "": // it says already
		return err
	case errors.Is(err, localach.ErrName):
		return ui.Usage(err, "")
	case errors.Is(err, fs.ErrNotExist):
		if hidden := diagnose.HiddenBy(a.dir().KernelDevice(name)); hidden != "" {
			return ui.NotFound(fmt.Errorf("channel %s: there is none in %s, and %s", name, a.shm, hidden), "achbridge uses channels in shared memory only")
		}
		return ui.NotFound(fmt.Errorf("channel %s: there is none in %s", name, a.shm),
			"achbridge channel ls lists them, achbridge channel create "+name+" makes it")
	case errors.Is(err, fs.ErrExist):
		return ui.Failure(fmt.Errorf("channel %s: exists already", name), "use it as it is; or end the programs that use it, then "+anew)
	case errors.Is(err, fs.ErrPermission):
		return ui.Failure(err, "readers of a channel need write permission too: its owner can give it with chmod g+rw or o+rw")
	case errors.Is(err, localach.ErrReplaced), errors.Is(err, localach.ErrUnlinked), errors.Is(err, localach.ErrReinitialised):
		return ui.Failure(err, "start again to open the channel that is there now")
	case errors.Is(err, localach.ErrForeign):
		return ui.Failure(err, "leave it to its own programs; the achd that belongs to its Ach serves it: achbridge mirror achd://HOST/"+name+" on other hosts")
	case errors.Is(err, localach.ErrHalfCreated):
		return ui.Failure(err, "try again; when it stays so, its creator has died: achbridge channel rm "+name)
	case errors.Is(err, localach.ErrBusy):
		return ui.Failure(err, "find who holds it: achbridge channel info "+name)
	case errors.Is(err, localach.ErrGeometry):
		return ui.Failure(err, "end the programs that use it, then give it a geometry that libach can open: "+anew+" --frames N --size BYTES")
	case errors.Is(err, localach.ErrCorrupt), errors.Is(err, localach.ErrWedged):
		return ui.Failure(err, "end the programs that use it, then achbridge channel rm "+name+": its publisher creates it again")
	}
	return ui.Failure(err, "")
}

// channelNames completes the names of this host's channels.
func (a *app) channelNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	infos, _ := a.dir().List()
	names := make([]string, 0, len(infos))
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
