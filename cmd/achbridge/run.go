package main

import (
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
		Long: `Run the daemon of this host in the foreground: it lets the members of its network
read the channels of this host and keeps the mirrors that were asked for. It never
ends because a peer or a channel is missing. SIGTERM or Ctrl-C end it in less than
two seconds, with a goodbye to its peers. Logs go to stderr, which may stand still or
be gone: lines that nobody reads are left out and counted, and hold up nothing but
the end, by a second.

Patterns are as in the shell (quote them): * any text, ? one character, [ab].
Lists are flags given several times. A flag goes before the environment, that
before the configuration file, that before the default; a list is taken from one
of them as a whole. The variables: ` + ui.Wrap(config.Variables(), 34, 79) + `.
The file is YAML:

  name: planner
  mirror:
    - {match: krang/imu, as: imu, budget: 20ms}
    - krang/*
  accept: [goal]

Its keys mean what the flags mean: ` + ui.Wrap(config.Keys(), 45, 79) + `.

A domain's zone lists hosts as DNS-SD has it, with or without the TXT record that
achbridge announces:

  _achbridge._udp.robots.example.com.        PTR  krang._achbridge._udp.robots.example.com.
  krang._achbridge._udp.robots.example.com.  SRV  0 0 8076 krang.example.com.

--transport says on what the node listens, and what it dials: with auto both, QUIC
on the port of --listen and SCTP on the next. A link then runs over QUIC, or over
SCTP where QUIC has no answer within 250 ms, until it ends or falls silent. Take
sctp for a peer where links lose packets and frames are large. Behind a peer, as in
'krang,transport=sctp', it holds for the links with that peer alone, however it is
found and whichever end dials. So it is with transport in a rule of mirror or push,
for the hosts that the rule names. PORT is that of the peer's --listen.

export, accept, mirror and push hold rules: a PATTERN (in mirror HOST/PATTERN, in
push "CHANNEL HOST[/NAME]") with options behind commas, or a mapping of match, or
deny, and options. Rules that deny come first; then the first that matches a
channel counts. The options of a mirror are as, file_mode, and what achbridge
mirror --help tells of; those of a push are in achbridge push --help, and what the
rule that accepts it says goes before them. hosts says who may read (export) or
write (accept).
achbridge check looks a configuration through, achbridge explain HOST/CHANNEL
names the rule that applies. SIGHUP, and achbridge reload, read it again.

Files, for root and else for everybody, the user's before the system's; --config
or ACHBRIDGE_CONFIG names another configuration:
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
			a.ui.Detach()
			level := &slog.LevelVar{}
			level.Set(c.Log.Level)
			log := slog.New(slog.NewTextHandler(a.ui.Err, &slog.HandlerOptions{Level: level}))
			d, err := daemon.Host{Places: a.Places, Dir: a.dir(), Version: version(), Load: load, Level: level}.New(c, log)
			if err != nil {
				return err
			}
			// A panic, or a watchdog's SIGABRT, then ends us by a signal. Go would exit with 2,
			// which is ui.ExitUsage: who starts daemons would think that it is of no use.
			debug.SetTraceback("crash")
			daemon.BoundMemory()
			if a.UID == 0 {
				log.Warn("running as root, which nothing here needs: a user who may read and write the channels is enough, as in the package's achbridge.service")
			}
			return daemon.Serve(cmd.Context(), d, hangups)
		},
	}
	s.Flags(cmd.Flags())
	_ = cmd.MarkFlagFilename("key")
	_ = cmd.MarkFlagDirname("state")
	cmd.Flags().StringVar(&path, "config", "", "configuration `FILE` in YAML (default: see above)")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}
