package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/via"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/demo"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

func demoCommand(a *app) *cobra.Command {
	c := demo.Config{Length: 10 * time.Second, Over: via.QUIC}
	tour := false
	cmd := &cobra.Command{
		Use:         "demo",
		Short:       "Mirror three channels on this machine and measure their age",
		Example:     examples("achbridge demo", "achbridge demo --tour"),
		Annotations: docs("README.md"),
		Args:        takes(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case c.Length <= 0:
				return ui.Usage(fmt.Errorf("--for %v: want a time above zero, as in 10s", c.Length), "")
			case tour && (a.asJSON || cmd.Flags().Changed("for")):
				return ui.Usage(errors.New("--tour prints text, for as long as it takes: no --json or --for with it"), "")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(syscall.SIGPIPE) // if stdout is a closed pipe, as in demo | head -1, the error of a write ends the demo, which cleans up
			if !a.asJSON {
				c.Out = a.ui.Out
			}
			if tour {
				c.Tour = a.tour
			}
			c.Shm = a.Dir
			report, err := demo.Run(cmd.Context(), c)
			if err == nil {
				if a.asJSON {
					err = json.NewEncoder(a.ui.Out).Encode(report)
				} else {
					err = report.Show(a.ui.Out)
				}
				if fault := report.Fault(); fault != nil {
					return ui.Failure(fault, "achbridge doctor checks this host; if it finds nothing, report it with achbridge bugreport")
				}
			}
			if errors.Is(err, syscall.EPIPE) {
				return nil
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&c.Length, "for", c.Length, "run for `TIME`")
	cmd.Flags().Var(config.TransportFlag(&c.Over), "transport", "connect over quic, sctp or auto")
	cmd.Flags().BoolVar(&tour, "tour", false, "show the commands that you need next (default false)")
	a.jsonFlag(cmd)
	return cmd
}

// tour runs the commands that a user needs next, on the demo's PC. It prints their errors, as main does, and returns only
// an error of stdout.
func (a *app) tour(ctx context.Context, dir localach.Dir, socket string) error {
	on, terminal := *a, *a.ui
	on.ui = &terminal // a terminal of its own, which records only errors of the tour
	on.Env = func(name string) string {
		switch name {
		case config.EnvName("control"):
			return socket
		case config.ShmVariable:
			return string(dir)
		}
		return a.Env(name)
	}
	for _, c := range []struct {
		why  string
		args []string
	}{
		{"Which channels do other hosts have?", []string{"ls"}},
		{"How many frames arrive?", []string{"rate", "robot.imu", "--count", "1"}},
		{"How old is the newest frame?", []string{"age", "robot/imu", "--window", "2s"}},
		{"Is anything wrong with it, and what is the fix?", []string{"why", "robot/imu"}},
	} {
		if ctx.Err() != nil {
			return nil
		}
		if err := on.ui.Line("\n%s\npc$ achbridge %s", c.why, strings.Join(c.args, " ")); err != nil {
			return err
		}
		root := newRoot(&on)
		root.SetArgs(c.args)
		if err := root.ExecuteContext(ctx); err != nil && ctx.Err() == nil && on.ui.Broken() == nil {
			on.ui.Fail(err)
		}
	}
	return on.ui.Broken()
}
