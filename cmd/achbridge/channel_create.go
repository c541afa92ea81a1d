package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

func channelCreateCommand(a *app) *cobra.Command {
	frames, bytes := 16, ui.Size(512)
	var mode fileMode
	var replace, force bool
	cmd := &cobra.Command{
		Use:         "create NAME",
		Short:       "Create a channel",
		Example:     examples("achbridge ch create imu --frames 64 --size 128", "achbridge ch create camera --frames 4 --size 512KiB --mode 0660"),
		Annotations: docs("docs/configuration.md"),
		Args:        takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			geometry := localach.Geometry{FrameCount: frames, FrameSize: int(bytes)}
			if replace {
				given := cmd.Flags().Changed
				var err error
				if geometry, err = a.replacing(args[0], geometry, given("frames"), given("size")); err != nil {
					return err
				}
				if !force {
					if err := a.refuseInUse(args[0], "achbridge channel create "+args[0]+" --replace"); err != nil {
						return err
					}
				}
			}
			if err := geometry.Check(); err != nil {
				return ui.Usage(fmt.Errorf("channel %s: %w", args[0], err), "")
			}
			ch, err := a.Dir.Create(args[0], localach.CreateConfig{Geometry: geometry, Mode: mode.bits, Replace: replace})
			if err != nil {
				return a.ChannelError(args[0], err)
			}
			if err := ch.Close(); err != nil {
				return a.ChannelError(args[0], err)
			}
			if hidden := diagnose.HiddenBy(a.Dir.KernelDevice(args[0])); hidden != "" {
				a.ui.Note("%s: %s", args[0], hidden)
			}
			return a.ui.Line("%s is a channel of %d frames of %d bytes", args[0], geometry.FrameCount, geometry.FrameSize)
		},
	}
	cmd.Flags().IntVar(&frames, "frames", frames, "keep `N` frames")
	cmd.Flags().Var(&bytes, "size", "reserve `BYTES` per frame, as in 512 or 64KiB")
	cmd.Flags().Var(&mode, "mode", "set permissions, in octal (default 0666 less the umask)")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace an existing channel")
	cmd.Flags().BoolVar(&force, "force", false, "with --replace, replace even an open channel")
	return cmd
}

// replacing returns the geometry of a channel that replaces another one. A value that is not given is taken from the old
// channel; it is an error if the old header cannot be trusted.
func (a *app) replacing(name string, g localach.Geometry, frames, size bool) (localach.Geometry, error) {
	if frames && size {
		return g, nil
	}
	old, err := a.Dir.Info(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return g, nil
	case err == nil:
		err = old.Err
	}
	if err != nil {
		return g, ui.Usage(fmt.Errorf("channel %s: its geometry cannot be kept: %w", name, err), "give --frames and --size")
	}
	if !frames {
		g.FrameCount = old.Geometry.FrameCount
	}
	if !size {
		g.FrameSize = old.Geometry.FrameSize
	}
	return g, nil
}

// fileMode is the pflag.Value of permission bits in octal.
type fileMode struct{ bits fs.FileMode }

func (m *fileMode) Type() string { return "MODE" }

func (m *fileMode) String() string {
	if m.bits == 0 {
		return ""
	}
	return fmt.Sprintf("%04o", m.bits)
}

func (m *fileMode) Set(text string) error {
	bits, err := strconv.ParseUint(text, 8, 32)
	if err != nil || bits == 0 || bits > 0o777 {
		return fmt.Errorf("mode %q: want octal permission bits, as in 0660", text)
	}
	m.bits = fs.FileMode(bits)
	return nil
}
