package main

import (
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/daemon"
	"achbridge/cmd/achbridge/ui"
)

func runCommand(a *app) *cobra.Command {
	s := config.Defaults()
	var path string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon of this host",
		Long: `Run the daemon of this host in the foreground. It lets the members of its network
read the channels of this host, and keeps the mirrors that were asked for. A missing
peer or channel does not end it. SIGTERM or Ctrl-C ends it in less than two seconds,
and it says goodbye to its peers.
Logs go to stderr. If nobody reads them, lines are left out and counted; the daemon
waits for the reader only when it ends, and then for one second at most.

Patterns are as in the shell: * any text, ? one character, [ab]. Quote them.
Give a flag several times to make a list. A flag overrides the environment, which
overrides the configuration file, which overrides the default. Lists are not merged.
The variables are ` + ui.Wrap(config.Variables(), 18, 79) + `.
The file is YAML:

  name: planner
  mirror:
    - {match: krang/imu, as: imu, budget: 20ms}
    - krang/*
  accept: [goal]

Its keys mean what the flags mean: ` + ui.Wrap(config.Keys(), 35, 79) + `.

The zone of a --domain lists hosts as in DNS-SD. The TXT record that achbridge
announces is not necessary:

  _achbridge._udp.robots.example.com.        PTR  krang._achbridge._udp.robots.example.com.
  krang._achbridge._udp.robots.example.com.  SRV  0 0 8076 krang.example.com.

--transport says which protocols the node listens on and dials. With auto these are
both: QUIC on the port of --listen, SCTP on the next port. A link then runs over
QUIC, or over SCTP if QUIC does not answer within 250 ms, until it ends or falls
silent. sctp is better where links lose packets and frames are large. With
--peer krang,transport=sctp only the links with krang use SCTP, whichever end dials.
The option transport in a rule of mirror or push does the same for the hosts that
the rule names. The PORT of a --peer is the one in that peer's --listen.

export, accept, mirror and push are lists of rules. A rule is a PATTERN (for mirror
HOST/PATTERN, for push "CHANNEL HOST[/NAME]") followed by ,KEY=VALUE options; in the
file it may also be a mapping with match or deny, and the options. Rules with deny
are looked at first, then the first rule that matches the channel applies. Options of
mirror are as, file_mode, transport and those in achbridge mirror --help; options of
push are in achbridge push --help, and the rule that accepts the push overrides them.
hosts says who may read (export) or write (accept).
achbridge check looks for mistakes in a configuration. achbridge explain HOST/CHANNEL
says which rule applies. SIGHUP or achbridge reload makes the daemon read it again.

Root uses the files of the first column, other users those of the second; without a
configuration or key of their own they use root's, as far as they may read it.
--config or ACHBRIDGE_CONFIG names another configuration:
  config   ` + config.SystemConfig + `   $XDG_CONFIG_HOME/achbridge/achbridge.yaml
  key      ` + config.SystemKey + `              $XDG_CONFIG_HOME/achbridge/key
  control  ` + config.SystemControl + `     $XDG_RUNTIME_DIR/achbridge/control.sock
  state    ` + config.SystemState + `              $XDG_STATE_HOME/achbridge`,
		Example: "  achbridge run\n  achbridge run --mirror 'krang/*'\n  achbridge run --mirror 'krang/imu,budget=20ms,priority=7' --mirror 'krang/*'\n  achbridge run --peer 192.168.1.20 --mirror krang/imu --accept goal\n  achbridge run --peer krang,transport=sctp",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			hangups := make(chan os.Signal, 1)
			signal.Notify(hangups, syscall.SIGHUP)
			defer signal.Stop(hangups)
			load := func() (*config.Config, error) { return a.Source(path, cmd.Flags()).Load() }
			c, err := load()
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("control") { // do not check a path from the file: its directory may be missing since the last boot
				if err := a.MakeControlFolder(c.Control); err != nil {
					return err
				}
			}
			a.ui.Detach()
			level := &slog.LevelVar{}
			level.Set(c.Log.Level)
			log := slog.New(slog.NewTextHandler(a.ui.Err, &slog.HandlerOptions{Level: level}))
			host := daemon.Host{Places: a.Places, Dir: a.Dir, Version: version(), Load: load, Level: level}
			d, err := host.New(c, log)
			if err != nil {
				return err
			}
			// A panic, or a watchdog's SIGABRT, then ends us by a signal. Go would exit with 2,
			// which is ui.ExitUsage, and a service manager would not restart us.
			debug.SetTraceback("crash")
			daemon.BoundMemory()
			if a.UID == 0 {
				log.Warn("running as root, which nothing here needs: a user who may read and write the channels is enough, as in the package's achbridge.service")
			}
			for {
				if err = daemon.Serve(cmd.Context(), d, hangups); !errors.Is(err, daemon.ErrNamed) {
					return err
				}
				if c, err = load(); err != nil {
					return err
				}
				if d, err = host.New(c, log); err != nil {
					return err
				}
			}
		},
	}
	s.Flags(cmd.Flags())
	_ = cmd.MarkFlagFilename("key")
	_ = cmd.MarkFlagDirname("state")
	configFlag(cmd, &path, "configuration `FILE` in YAML (default: see above)")
	return cmd
}
