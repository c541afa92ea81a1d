package main

import (
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

The wish lasts as long as the daemon runs; to keep it, start the daemon with
achbridge run --mirror, or put it into its configuration file.`,
		Example:           "  achbridge mirror krang/imu\n  achbridge mirror 'krang/*'\n  achbridge mirror krang/imu --as imu",
		Args:              takes("HOST/CHANNEL"),
		ValidArgsFunction: a.remoteNames(&path),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := args[0]
			if as != "" {
				text += ",as=" + as
			}
			wish, err := bridge.ParseMirror(text)
			if err != nil {
				return misused(err, "")
			}
			var made []bridge.MirrorStatus
			if err := a.client(path).post(cmd.Context(), "/v1/mirror", wish, &made); err != nil {
				return err
			}
			for _, m := range made {
				if err := a.ui.line("%s", mirrorText(m)); err != nil {
					return err
				}
			}
			if len(made) == 0 {
				a.ui.note("%s/%s: nothing to mirror yet; it begins when the channel appears", wish.Host, wish.Channel)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "`NAME` of the mirror (default HOST.CHANNEL)")
	controlFlag(cmd, &path)
	return cmd
}

func mirrorText(m bridge.MirrorStatus) string {
	text := m.Host + "/" + m.Channel + " is " + m.Name + " here, " + m.State
	if m.Reason != "" {
		text += ": " + m.Reason
	}
	return text
}
