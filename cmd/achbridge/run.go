package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/child"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/daemon"
	"achbridge/cmd/achbridge/ui"
)

func runCommand(a *app) *cobra.Command {
	s := config.Defaults()
	var path string
	cmd := &cobra.Command{
		Use:         "run [-- PROGRAM ARGS...]",
		Short:       "Run the daemon of this host in the foreground",
		Example:     examples("achbridge run --mirror 'krang/imu,budget=20ms,priority=7' --mirror 'krang/*'", "achbridge run --peer 192.168.1.20 --accept goal -- ./planner --fast"),
		Annotations: docs("docs/configuration.md"),
		Args: func(cmd *cobra.Command, args []string) error {
			switch at := cmd.ArgsLenAtDash(); {
			case at < 0 || at > 0:
				return takes()(cmd, args)
			case len(args) == 0:
				return errors.New("run: a program is missing after --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			signals := make(chan os.Signal, 16)
			if len(args) > 0 {
				signal.Notify(signals, child.Signals...)
				defer signal.Stop(signals)
			}
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
			warnOfVariables(log)
			host := daemon.Host{Places: a.Places, Dir: a.Dir, Version: version(), Load: load, Level: level}
			d, err := host.New(c, log)
			if err != nil {
				return err
			}
			// A panic, or a watchdog's SIGABRT, then ends us by a signal. Go would exit with 2,
			// which is ui.ExitUsage, and a service manager would not restart us.
			debug.SetTraceback("crash")
			daemon.BoundMemory()
			go daemon.LimitCPUs(cmd.Context())
			if a.UID == 0 {
				log.Warn("running as root without need, use a user with access to the channels, as in the package's achbridge.service")
			}
			serve := func(ctx context.Context) error {
				for {
					if err := daemon.Serve(ctx, d, hangups); !errors.Is(err, daemon.ErrNamed) {
						return err
					}
					if c, err = load(); err != nil {
						return err
					}
					if d, err = host.New(c, log); err != nil {
						return err
					}
				}
			}
			if out, ok := a.ui.Out.(*os.File); ok && ui.IsTerminal(out) && d.ViewerURL() != "" { // a log must not have the token
				fmt.Fprintln(out, "viewers: "+d.ViewerURL())
			}
			if len(args) == 0 {
				return serve(cmd.Context())
			}
			socket, err := a.SocketFor(c.Control)
			if err != nil {
				return err
			}
			program := child.Program{Args: args, Signals: signals, StopTime: child.StopTime, Log: log}
			return program.Run(context.WithoutCancel(cmd.Context()), child.Daemon{Serve: serve, Ready: api.New(socket).Answers})
		},
	}
	s.Flags(cmd.Flags())
	_ = cmd.MarkFlagFilename("key")
	_ = cmd.MarkFlagDirname("state")
	configFlag(cmd, &path, "read configuration `FILE` (default: see man page)")
	return cmd
}

// warnOfVariables logs a warning for each environment variable that no command reads.
func warnOfVariables(log *slog.Logger) {
	for _, text := range config.UnknownVariables(os.Environ()) {
		log.Warn("setting is probably wrong", "err", text)
	}
}
