//go:build !nohub

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	natshub "achbridge/bridge/hub"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/hub"
	"achbridge/cmd/achbridge/ui"
)

func hubCommand(a *app) *cobra.Command {
	var level config.LogLevel
	cfg := hub.Defaults()
	memory := ui.Size(cfg.Memory)
	cmd := needsVerb(&cobra.Command{
		Use:   "hub",
		Short: "Run a hub that connects hosts which cannot reach each other directly",
		Long: `Run a hub that connects hosts which cannot reach each other directly, as robots behind
5G and NAT and operators elsewhere. It is a nats-server to which all of them dial out.
It needs one open TCP port, ` + natshub.DefaultPort + `.

  achbridge hub init hub.example.com    once: makes its key and certificate
  achbridge hub add krang               writes krang.creds: krang's credentials
  achbridge hub                         runs the hub

On the host, which keeps its network key too:

  achbridge run --hub-creds krang.creds --mirror 'atlas/*'

The hub keeps the newest frame of each channel, in memory, and nothing else. All that
passes is sealed by the hosts: whoever runs the hub sees names, sizes and times, and
can delay or withhold, but neither read nor forge. Whoever has a credentials file can
use the hub as that host, and is still no member of the network: that takes its key.

add and remove take effect at once, also while the hub runs. The hub is a directory:
` + config.SystemHub + ` for root, else $XDG_STATE_HOME/achbridge/hub.

A nats-server that you have already can be the hub instead:

  achbridge hub init --nats nats.example.com
  achbridge hub add krang
  achbridge hub config                  prints what that server has to be told

--http serves /metrics and /healthz. SIGTERM or Ctrl-C ends the hub. Logs go to stderr.`,
		Example: "  achbridge hub\n  achbridge hub --listen :443 --http :9477\n  achbridge hub --memory 1GiB",
	})
	a.inHub(cmd, func(cmd *cobra.Command, dir hub.Directory, _ []string) error {
		cfg.Dir, cfg.Memory, cfg.Places, cfg.Version = dir, int64(memory), a.Places, version()
		a.ui.Detach()
		cfg.Log = slog.New(slog.NewTextHandler(a.ui.Err, &slog.HandlerOptions{Level: level.Level}))
		s, err := hub.New(cfg)
		if err != nil {
			return err
		}
		debug.SetTraceback("crash") // for the same reason as in run.go
		return s.Run(cmd.Context())
	})
	cmd.Args = a.noVerb(cmd.Args)
	cmd.AddCommand(hubInitCommand(a), hubAddCommand(a), hubRemoveCommand(a), hubListCommand(a), hubCheckCommand(a), hubConfigCommand(a))
	cmd.Flags().StringVar(&cfg.Listen, "listen", cfg.Listen, "TCP `ADDRESS`, as in :4222 or 192.0.2.1:443")
	cmd.Flags().Var(config.AddressFlag(&cfg.HTTP, ":9476"), "http", "serve /metrics and /healthz there, as in :9477 (default off)")
	cmd.Flags().Var(&memory, "memory", "how much memory the frames may take")
	cmd.Flags().IntVar(&cfg.Connections, "connections", cfg.Connections, "how many connections there may be; a host needs two")
	cmd.Flags().Var(&level, "log", "log `LEVEL`: debug, info, warn, error")
	return cmd
}

// noVerb wraps next so that a command with subcommands can also be run without one.
func (a *app) noVerb(next cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := next(cmd, args); !errors.Is(err, errNoVerb) {
			return err
		}
		return nil
	}
}

// inHub adds --dir to cmd and makes cmd call run with that hub directory. Without --dir, it is the default directory.
func (a *app) inHub(cmd *cobra.Command, run func(*cobra.Command, hub.Directory, []string) error) {
	var dir string
	cmd.Flags().StringVar(&dir, "dir", "", "`DIR` of the hub")
	_ = cmd.MarkFlagDirname("dir")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if dir == "" {
			path, err := a.HubPath()
			if err != nil {
				return ui.Usage(fmt.Errorf("hub: no place for it: %w", err), "name one: --dir DIR")
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
		Use:   "init ADDRESS",
		Short: "Create a hub: its key and certificate; never overwrites one",
		Long: `Create the directory of a hub, with a new key and a certificate that hosts know by its
hash. ADDRESS is the name or address by which hosts reach the hub, with :PORT if that
is not ` + natshub.DefaultPort + `; it goes into their credentials. Keep a copy of the directory: a new
hub has another certificate, and then all hosts need new credentials.

With --nats the hub is a nats-server that runs already, and ADDRESS is where it is.
Its certificate must be one that the system of every host trusts; or name it with
--certificate.`,
		Example: "  achbridge hub init hub.example.com\n  achbridge hub init hub.example.com:443\n  achbridge hub init --nats nats.example.com",
		Args:    takes("ADDRESS"),
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
	cmd.Flags().BoolVar(&foreign, "nats", false, "the hub is a nats-server that runs already")
	cmd.Flags().StringVar(&certificate, "certificate", "", "`FILE` with that server's certificate, in PEM (default: one that the system trusts)")
	_ = cmd.MarkFlagFilename("certificate")
	return cmd
}

func initForeign(dir hub.Directory, address, path string) (hub.Identity, error) {
	var text []byte
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return hub.Identity{}, ui.Usage(fmt.Errorf("certificate: %w", err), "")
		}
	}
	return dir.InitForeign(address, string(text))
}
