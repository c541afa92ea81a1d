package main

import (
	"context"

	"github.com/spf13/cobra"

	"achbridge/bridge"
)

func mirrorCommand(a *app) *cobra.Command {
	var as, path string
	cmd := &cobra.Command{
		Use:   "mirror HOST/CHANNEL",
		Short: "Mirror a channel of another host here",
		Long: `Tell the running daemon to mirror a channel of another host: here it is then
called HOST.CHANNEL, or as --as says. Patterns (quoted) mirror all that match,
now and later. A host or channel that is not there yet is waited for.

The same call with other options changes a mirror while it runs, without a gap.
It replaces the wish as a whole: options not given go back to their defaults.
Where several wishes match a channel, one that names it exactly counts, else the
first pattern.

A frame past its --budget is dropped, unless it is the newest that the channel
has: that one comes late, behind everything else, so that a mirror always gets the
last word. With --class command it does not come. --late deliver delivers all.
--max-rate takes the newest frame each time. --mode every sends all frames in
order, as far back as the ring reaches, for logs and events; it goes neither with
--max-rate nor with --class command. --compress auto does it where it pays.

A mirror that gets no frame for its --deadline is stale: status shows it, and the
log. A command channel can then have a safe frame, once: --on-stale put:FILE, which
is read now. It is this daemon that puts it, also when it ends in good order. When
it is killed nothing is put: the robot's own watchdog stays mandatory.

With --meta a channel NAME.meta beside the mirror tells programs how old it is and
what feeds it, also when nothing arrives any more; the README says how to read it.

The wish lasts as long as the daemon runs; to keep it, start the daemon with
achbridge run --mirror, or put it into its configuration file.`,
		Example: `  achbridge mirror krang/imu
  achbridge mirror 'krang/*'
  achbridge mirror krang/imu --as imu --budget 20ms --priority 7
  achbridge mirror krang/camera --max-rate 5 --compress zstd
  achbridge mirror krang/log --mode every
  achbridge mirror planner/goal --class command --deadline 200ms --on-stale put:stop`,
		Args:              takes("HOST/CHANNEL"),
		ValidArgsFunction: a.remoteNames(&path),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := args[0]
			if as != "" {
				text += ",as=" + as
			}
			wish, err := bridge.ParseMirror(withQoS(text, cmd.Flags()))
			if err != nil {
				return misused(err, "")
			}
			return a.mirror(cmd.Context(), a.client(path), wish)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&as, "as", "", "`NAME` of the mirror (default HOST.CHANNEL)")
	addQoSFlags(cmd, bridge.Options())
	controlFlag(cmd, &path)
	return cmd
}

// mirror tells the daemon the wish, and the person what came of it.
func (a *app) mirror(ctx context.Context, c *client, wish bridge.Mirror) error {
	var before statusReply
	if _, err := c.get(ctx, "/v1/status", &before); err != nil {
		return err
	}
	var made []bridge.MirrorStatus
	if err := c.post(ctx, "/v1/mirror", wish, &made); err != nil {
		return err
	}
	had := map[string]bridge.QoS{}
	for _, m := range before.Mirrors {
		had[m.Name] = m.QoS
	}
	for _, m := range made {
		if err := a.ui.line("%s", mirrorText(m, had)); err != nil {
			return err
		}
		if other := qosText(wish.QoS, m.QoS); other != "" {
			a.ui.note("%s/%s has %s, as another wish for it says", m.Host, m.Channel, other)
		}
	}
	if len(made) == 0 {
		a.ui.note("%s/%s: nothing to mirror yet; it begins when the channel appears", wish.Host, wish.Channel)
	}
	return nil
}

// mirrorText says what is new: the quality of service of a mirror that there was
// before, or the mirror.
func mirrorText(m bridge.MirrorStatus, had map[string]bridge.QoS) string {
	text := m.Host + "/" + m.Channel
	if q, ok := had[m.Name]; ok && qosText(q, m.QoS) != "" {
		text += ": " + qosText(q, m.QoS) + " now; it"
	}
	text += " is " + m.Name + " here, " + m.State
	if m.Reason != "" {
		text += ": " + m.Reason
	}
	return text
}
