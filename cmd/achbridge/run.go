package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
)

func runCommand(a *app) *cobra.Command {
	s := defaultSettings()
	var config string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon of this host",
		Long: `Run the daemon of this host in the foreground: it lets the members of its network
read the channels of this host and keeps the mirrors that were asked for. It never
ends because a peer or a channel is missing. SIGTERM or Ctrl-C end it in less than
two seconds, with a goodbye to its peers. Logs go to stderr.

Patterns are as in the shell (quote them): * any text, ? one character, [ab].
Lists are flags given several times. With --config the flags (whole lists too)
take the place of the file's keys; the file is YAML:

  name: planner
  mirror: ['krang/imu,as=imu,budget=20ms', 'krang/*']
  accept: [goal]

Keys: name listen transport key export relay accept adopt mirror push peers
interfaces discovery control state log. They mean what the flags mean.

A mirror entry is HOST/PATTERN and, behind commas, options in any order (in a
list of the file it needs quotes): as=NAME and what achbridge mirror --help tells
of: budget=TIME max_rate=HZ priority=0..7 mode=newest|every late=drop|deliver
compress=auto|none|s2|zstd class=state|command. Of several entries for one channel
the one that names it exactly counts, else the first.

Files, for root and else for everybody:
  key      ` + systemKey + `           $XDG_CONFIG_HOME/achbridge/key
  control  ` + systemControl + `  $XDG_RUNTIME_DIR/achbridge/control.sock
  state    ` + systemState + `           $XDG_STATE_HOME/achbridge`,
		Example: "  achbridge run\n  achbridge run --mirror 'krang/*'\n  achbridge run --mirror 'krang/imu,budget=20ms,priority=7' --mirror 'krang/*'\n  achbridge run --peer 192.168.1.20 --mirror krang/imu --accept goal",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config != "" {
				if err := s.underlay(config, cmd.Flags()); err != nil {
					return err
				}
			}
			log := slog.New(slog.NewTextHandler(a.ui.err, &slog.HandlerOptions{Level: s.Log}))
			d, err := a.newDaemon(&s, log)
			if err != nil {
				return err
			}
			return runDaemon(cmd.Context(), d)
		},
	}
	s.flags(cmd)
	cmd.Flags().StringVar(&config, "config", "", "configuration `FILE` in YAML")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

// leaveTime is how long the daemon takes at most to say goodbye.
const leaveTime = 1800 * time.Millisecond

// runDaemon runs d until ctx ends, tells the service manager about it, and
// returns in time even when something hangs.
func runDaemon(ctx context.Context, d *running) error {
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	tell(d.log, daemon.SdNotifyReady)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	tell(d.log, daemon.SdNotifyStopping)
	select {
	case err := <-done:
		return err
	case <-time.After(leaveTime):
		return failed(errors.New("leaving took too long: left without a goodbye to everybody"), "")
	}
}

// tell notifies systemd when it is there.
func tell(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("service manager not told", "state", state, "err", err, "socket", os.Getenv("NOTIFY_SOCKET"))
	}
}
