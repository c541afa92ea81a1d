//go:build !nohub

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/hub"
	"achbridge/cmd/achbridge/ui"
)

func hubCommand(a *app) *cobra.Command {
	var level config.LogLevel
	cfg := hub.Defaults()
	memory := ui.Size(cfg.Memory)
	cmd := needsCommand(&cobra.Command{
		Use:         "hub",
		Short:       "Run a hub for hosts that cannot reach each other directly",
		Example:     examples("achbridge hub", "achbridge hub --listen :443 --http :9477"),
		Annotations: docs("docs/fleet.md"),
	})
	a.inHub(cmd, func(cmd *cobra.Command, dir hub.Directory, _ []string) error {
		cfg.Dir, cfg.Memory, cfg.Places, cfg.Version = dir, int64(memory), a.Places, version()
		a.ui.Detach()
		cfg.Log = slog.New(slog.NewTextHandler(a.ui.Err, &slog.HandlerOptions{Level: level.Level}))
		warnOfVariables(cfg.Log)
		s, err := hub.New(cfg)
		if err != nil {
			return err
		}
		debug.SetTraceback("crash") // for the same reason as in run.go
		return s.Run(cmd.Context())
	})
	cmd.Args = a.noCommand(cmd.Args)
	cmd.AddCommand(hubInitCommand(a), hubAddCommand(a), hubRemoveCommand(a), hubListCommand(a), hubCheckCommand(a), hubConfigCommand(a))
	cmd.Flags().StringVar(&cfg.Listen, "listen", cfg.Listen, "listen on TCP `ADDRESS`")
	cmd.Flags().Var(config.AddressFlag(&cfg.HTTP, ":9476"), "http", "serve /metrics and /healthz at `ADDRESS` (default off)")
	cmd.Flags().Var(&memory, "memory", "use at most `BYTES` of memory for frames")
	cmd.Flags().IntVar(&cfg.Connections, "connections", cfg.Connections, "allow at most `N` connections, two per host")
	cmd.Flags().Var(&level, "log", "log from `LEVEL` up: debug, info, warn, error")
	return cmd
}

// noCommand wraps next so that a command with subcommands can also be run without one.
func (a *app) noCommand(next cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := next(cmd, args); !errors.Is(err, errNoCommand) {
			return err
		}
		return nil
	}
}

// inHub adds --dir to cmd and makes cmd call run with that hub directory. Without --dir, it is the default directory.
func (a *app) inHub(cmd *cobra.Command, run func(*cobra.Command, hub.Directory, []string) error) {
	var dir string
	cmd.Flags().StringVar(&dir, "dir", "", "use the hub in `DIR` (default: see man page)")
	_ = cmd.MarkFlagDirname("dir")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if dir == "" {
			path, err := a.HubPath()
			if err != nil {
				return ui.Usage(fmt.Errorf("hub: no directory for it: %w", err), "name one: --dir DIR")
			}
			dir = path
		}
		return run(cmd, hub.Directory(dir), args)
	}
}

func hubInitCommand(a *app) *cobra.Command {
	var certificate string
	var foreign bool
	cmd := &cobra.Command{
		Use:         "init ADDRESS",
		Short:       "Create a hub: its directory, key and certificate",
		Example:     examples("achbridge hub init hub.example.com:443", "achbridge hub init --nats nats.example.com"),
		Annotations: docs("docs/fleet.md"),
		Args:        takes("ADDRESS"),
	}
	a.inHub(cmd, func(_ *cobra.Command, dir hub.Directory, args []string) error {
		if certificate != "" && !foreign {
			return ui.Usage(errors.New("--certificate: only with --nats; a hub makes its own"), "")
		}
		var id hub.Identity
		var err error
		if foreign {
			id, err = initForeign(dir, args[0], certificate)
		} else {
			id, err = dir.Init(args[0])
		}
		if err != nil {
			return err
		}
		return a.ui.Fields("address", id.Address, "certificate", id.HashText(), "path", string(dir))
	})
	cmd.Flags().BoolVar(&foreign, "nats", false, "use an existing nats-server at ADDRESS as the hub")
	cmd.Flags().StringVar(&certificate, "certificate", "", "trust that server's certificate `FILE` (default: system's)")
	_ = cmd.MarkFlagFilename("certificate")
	return cmd
}

func initForeign(dir hub.Directory, address, path string) (hub.Identity, error) {
	var text []byte
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return hub.Identity{}, ui.File(fmt.Errorf("certificate: %w", err), "")
		}
	}
	return dir.InitForeign(address, string(text))
}
