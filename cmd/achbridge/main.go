// Command achbridge mirrors Ach channels between hosts, and creates, reads and writes
// channels of this host. Each command has a file named after it. Only package ui prints
// text for people.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/view"
)

func main() {
	os.Exit(start(os.Args[1:]))
}

// start runs one command line and returns its exit code. The first SIGINT or
// SIGTERM cancels the command's context; a second signal ends the process at once.
// SIGHUP does the same, except in run, which reloads its configuration.
func start(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	env, inProc := config.TakeKeyText()
	a := &app{ui: ui.New(os.Stdout, os.Stderr), in: os.Stdin}
	a.Host = view.Host{Places: config.Places{Env: env, UID: os.Getuid()}, Note: a.ui.Note}
	defer a.ui.Flush()
	if inProc != nil {
		a.ui.Note("%s remains in /proc/%d/environ, use a key file: %v", config.KeyText, os.Getpid(), inProc)
	}
	root := newRoot(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = a.ui.Broken()
	}
	if err != nil && !a.ran {
		return a.misusedBy(cmd, err)
	}
	if errors.Is(err, context.Canceled) && ui.Fix(err) == "" {
		err = fmt.Errorf("%s: stopped before it was done", commandName(cmd))
	}
	if err != nil {
		a.ui.Fail(err)
	}
	return ui.ExitCode(err)
}
