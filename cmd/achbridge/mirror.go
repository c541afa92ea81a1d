package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

func mirrorCommand(a *app) *cobra.Command {
	var as, path string
	cmd := &cobra.Command{
		Use:   "mirror HOST/CHANNEL",
		Short: "Mirror a channel of another host here",
		Long: `Tell the running daemon to mirror a channel of another host. The mirror is called
HOST.CHANNEL, or as --as says. A pattern (quoted) mirrors all channels that match,
now and later. The host and the channel need not be there yet.

The same command with other options changes a mirror while it runs, without a gap.
Options that are not given go back to their defaults. If several wishes match a
channel, the one that names it exactly applies, else the first pattern.

A frame older than its --budget is dropped. The newest frame of the channel is an
exception: it is delivered late, after everything else, so that the mirror always
ends up with the last frame. With --class command late frames are never delivered,
with --late deliver all are. --max-rate takes the newest frame each time. --mode every
sends all frames in order, as far back as the ring reaches, for logs and events; it
cannot be combined with --max-rate or --class command. --compress auto compresses
where that saves time.

A mirror that gets no frame for its --deadline is stale; status and the log say so.
A stale command channel can get one safe frame: --on-stale put:FILE. The file is read
now. The daemon of this host puts the frame, also when it is ended by a signal. When
it is killed, nothing is put: the robot still needs its own watchdog.

With --meta a channel NAME.meta beside the mirror tells programs how old the mirror
is and what feeds it, also when no more frames come. docs/qos.md says how to read it.

The daemon forgets the wish when it ends. To keep it, start the daemon with
achbridge run --mirror, or write it into the configuration file.`,
		Example: `  achbridge mirror krang/imu
  achbridge mirror 'krang/*'
  achbridge mirror krang/imu --as imu --budget 20ms --priority 7
  achbridge mirror krang/camera --max-rate 5 --compress zstd
  achbridge mirror krang/log --mode every
  achbridge mirror planner/goal --class command --deadline 200ms --on-stale put:stop`,
		Args:              takes("HOST/CHANNEL"),
		ValidArgsFunction: a.remoteNames(&path),
		RunE: func(cmd *cobra.Command, args []string) error {
			wish, err := wished(args[0], as, cmd.Flags())
			if err != nil {
				return ui.Usage(err, "")
			}
			return a.mirror(cmd.Context(), a.client(path), wish)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&as, "as", "", "`NAME` of the mirror (default HOST.CHANNEL)")
	addQoSFlags(cmd, rule.Options())
	controlFlag(cmd, &path)
	return cmd
}

// wished is the wish for the mirrors of an address, with the flags that were given.
func wished(address, as string, given *pflag.FlagSet) (rule.Mirror, error) {
	wish, err := rule.ParseMirror(address, config.ReadFile)
	if err != nil {
		return wish, err
	}
	if as != "" {
		err = wish.Set("as", as, config.ReadFile)
	}
	err = errors.Join(err, setQoS(&wish.QoS, given))
	if err == nil {
		err = wish.Check()
	}
	if err != nil {
		return wish, fmt.Errorf("mirror %q: %w", address, err)
	}
	return wish, nil
}

// mirror tells the daemon the wish, and the person what came of it.
func (a *app) mirror(ctx context.Context, c *api.Client, wish rule.Mirror) error {
	var before api.StatusReply
	if _, err := c.Get(ctx, "/v1/status", &before); err != nil {
		return err
	}
	var made []status.Mirror
	if err := c.Post(ctx, "/v1/mirror", wish, &made); err != nil {
		return err
	}
	had := map[string]rule.QoS{}
	for _, m := range before.Mirrors {
		had[m.Name] = m.QoS
	}
	for _, m := range made {
		if err := a.ui.Line("%s", mirrorText(m, had)); err != nil {
			return err
		}
		if other := rule.Differences(wish.QoS, m.QoS); other != "" {
			a.ui.Note("%s/%s has %s, as another wish for it says", m.Host, m.Channel, other)
		}
	}
	if len(made) == 0 {
		a.ui.Note("%s/%s: nothing to mirror yet; it begins when the channel appears", wish.Host, wish.Channel)
	}
	return nil
}

// mirrorText says what is new: the quality of service of a mirror that there was
// before, or the mirror.
func mirrorText(m status.Mirror, had map[string]rule.QoS) string {
	text := m.Host + "/" + m.Channel
	if q, ok := had[m.Name]; ok && rule.Differences(q, m.QoS) != "" {
		text += ": " + rule.Differences(q, m.QoS) + " now; it"
	}
	text += " is " + m.Name + " here, " + m.State.String()
	if m.Reason != "" {
		text += ": " + m.Reason
	}
	return text
}

func unmirrorCommand(a *app) *cobra.Command {
	var path string
	var remove bool
	cmd := &cobra.Command{
		Use:   "unmirror HOST/CHANNEL",
		Short: "Stop mirroring a channel",
		Long: `Tell the running daemon to stop a mirror. Name it as it was asked for: a pattern by
the same pattern. The mirror's channel stays, with its last frames, unless --rm
removes it.`,
		Args: takes("HOST/CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			wish, err := rule.ParseMirror(args[0], config.ReadFile)
			if err != nil {
				return ui.Usage(err, "")
			}
			request := api.UnmirrorRequest{Host: wish.Host, Channel: wish.Channel, Remove: remove}
			return a.client(path).Post(cmd.Context(), "/v1/unmirror", request, &struct{}{})
		},
	}
	cmd.Flags().BoolVar(&remove, "rm", false, "remove the mirror's channel too")
	controlFlag(cmd, &path)
	return cmd
}
