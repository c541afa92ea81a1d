package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/view"
	"achbridge/localach"
)

// app holds a command's access to the outside: terminal, standard input, environment and channels.
type app struct {
	ui *ui.Terminal
	in io.Reader
	view.Host
	control string // --control: path of the daemon's socket; empty means the default
	asJSON  bool   // --json: print for programs
	ran     bool   // the command line was valid and its command started
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "achbridge",
		Short:         "Mirror Ach channels between hosts, newest frame first",
		Example:       examples("achbridge key new                  # once; copy the key to every host", "achbridge run --mirror 'krang/*'   # mirror all channels of host krang"),
		Annotations:   docs("README.md"),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			a.ran = true
			if cmd.Name() != "run" {
				ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
				context.AfterFunc(ctx, stop)
				cmd.SetContext(ctx)
			}
		},
	}
	root.SetOut(a.ui.Out)
	root.SetErr(a.ui.Err)
	root.SetIn(a.in)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = fmt.Errorf("--%s: %w", bad.GetFlag().Name, badValue(bad))
		}
		if gone, ok := errors.AsType[*pflag.NotExistError](err); ok && cmd.Flags().Lookup("budget") != nil {
			if why := rule.Removed(gone.GetSpecifiedName()); why != "" {
				err = fmt.Errorf("--%s %s", gone.GetSpecifiedName(), why)
			}
		}
		return fmt.Errorf("%s: %w", commandName(cmd), err)
	})
	root.PersistentFlags().StringVar((*string)(&a.Dir), "shm", cmp.Or(a.Env(config.ShmVariable), string(localach.Shm)),
		"read and write channel files in `DIR`")
	_ = root.PersistentFlags().MarkHidden("shm")

	addCommands(root, a)
	setHelp(root)
	return withVersion(needsCommand(root))
}

// addCommands adds all commands below root. Short help shows the first list of each group; help --all shows all.
func addCommands(root *cobra.Command, a *app) {
	type list = []*cobra.Command
	group := func(id, title string, shown, others list) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, c := range others {
			c.Annotations[forAll] = "true"
		}
		for _, c := range append(shown, others...) {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	group("net", "On the network:", list{runCommand(a), lsCommand(a), mirrorCommand(a), pushCommand(a), hubCommand(a)},
		list{putCommand(a), forgetCommand(a), muxCommand(a), takeCommand(a), releaseCommand(a), whoCommand(a)})
	group("look", "Watch and diagnose:", list{statusCommand(a), topCommand(a), whyCommand(a), rateCommand(a), ageCommand(a), echoCommand(a), plotCommand(a), waitCommand(a)},
		list{pingCommand(a), eventsCommand(a)})
	group("host", "On this host:", list{channelCommand(a), publishCommand(a), keyCommand(a), doctorCommand(a), demoCommand(a)},
		list{caCommand(a), typeCommand(a), bugreportCommand(a), versionCommand(a)})
	group("files", "Configuration and recordings:", list{checkCommand(a), recCommand(a)}, list{snapshotCommand(a), reloadCommand(a), migrateCommand(a)})
	root.AddCommand(manCommand())
	for _, f := range []struct {
		now string
		cmd *cobra.Command
	}{
		{"rate", hzCommand(a)}, {"rate", bwCommand(a)}, {"mirror --off", unmirrorCommand(a)}, {"check --explain", explainCommand(a)},
		{"rec record", recordCommand(a)}, {"rec play", playCommand(a)}, {"rec info", infoCommand(a)}, {"rec export", exportCommand(a)},
	} {
		root.AddCommand(former(f.cmd, f.now))
	}
	root.SetHelpCommandGroupID("host")
	root.SetCompletionCommandGroupID("host")
}

// former hides c, a command with a former name. now is the present name.
func former(c *cobra.Command, now string) *cobra.Command {
	c.Hidden, c.Annotations[nowCalled] = true, now
	return c
}

// withVersion adds --version to root.
func withVersion(root *cobra.Command) *cobra.Command {
	printed, check := root.Flags().BoolP("version", "v", false, "print the version"), root.Args
	root.Args = func(cmd *cobra.Command, args []string) error {
		if *printed {
			return nil
		}
		return check(cmd, args)
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
		return err
	}
	return root
}

// badValue returns an error that describes the values that a flag takes. For a flag with
// one of our own types, it returns the error of that type.
func badValue(bad *pflag.InvalidValueError) error {
	wants := map[string]string{
		"duration": "a time, as in 500ms or 10s",
		"int":      "a whole number",
		"float64":  "a number, as in 2 or 0.5",
		"bool":     "true or false",
	}
	kind := bad.GetFlag().Value.Type()
	_, number := errors.AsType[*strconv.NumError](bad)
	if want := wants[kind]; want != "" && (number || kind == "duration") {
		return fmt.Errorf("%q: want %s", bad.GetValue(), want)
	}
	return errors.Unwrap(bad)
}

// errNoCommand reports a missing subcommand. misusedBy then prints the help page and returns ui.ExitUsage.
var errNoCommand = errors.New("a command is missing")

// needsCommand makes a command that only groups subcommands fail with a usage error if the
// subcommand is missing or unknown. By default, cobra prints help and succeeds.
func needsCommand(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return errNoCommand
		}
		text := fmt.Sprintf("%s: unknown command %q", commandName(cmd), args[0])
		cmd.SuggestionsMinimumDistance = max(1, min(2, len(args[0])/3)) // do not suggest top for foo
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			text += "; did you mean " + ui.OrList(near) + "?"
		}
		return errors.New(text)
	}
	cmd.RunE = func(*cobra.Command, []string) error { return nil }
	return cmd
}

// takes returns a check of the number of positional arguments. The names are those of the
// usage line: "NAME", "[TEXT]" (optional), "NAME..." (one or more).
func takes(names ...string) cobra.PositionalArgs {
	least, most := 0, len(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			least++
		}
		if strings.HasSuffix(strings.TrimSuffix(name, "]"), "...") {
			most = -1
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least {
			return fmt.Errorf("%s: %s is missing", commandName(cmd), strings.TrimSuffix(names[len(args)], "..."))
		}
		if most >= 0 && len(args) > most {
			return fmt.Errorf("%s: one argument too many: %q", commandName(cmd), args[most])
		}
		return nil
	}
}

// show prints v as JSON with --json, and calls text(v) without it.
func show[T any](a *app, v T, text func(T) error) error {
	if a.asJSON {
		return a.ui.JSON(v)
	}
	return text(v)
}

// commandName returns the name of a command for errors, as in "channel create".
func commandName(cmd *cobra.Command) string {
	_, path, ok := strings.Cut(cmd.CommandPath(), " ")
	if !ok {
		return "command line"
	}
	return path
}

// misusedBy prints the error or help for a command line that cmd rejected. It returns the exit code.
func (a *app) misusedBy(cmd *cobra.Command, err error) int {
	if errors.Is(err, errNoCommand) {
		cmd.SetOut(a.ui.Err)
		_ = cmd.Help()
		return ui.ExitUsage
	}
	a.ui.Fail(ui.Usage(err, cmd.CommandPath()+" --help"))
	return ui.ExitUsage
}
