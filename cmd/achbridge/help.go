package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/ui"
)

// docsDir is the directory into which the Debian package installs README.md and docs/.
const docsDir = "/usr/share/doc/achbridge/"

// docs returns the annotations of a command that is documented in a file of this repository.
func docs(file string) map[string]string { return map[string]string{"docs": docsDir + file} }

// examples formats the command lines that a command's help shows.
func examples(lines ...string) string { return "  " + strings.Join(lines, "\n  ") }

// Annotations of commands.
const (
	forAll    = "for all"    // set if only help --all lists the command
	nowCalled = "now called" // present name of a command; the command is hidden, since its own name is a former one
)

// helpOf returns the help of a command. Unless all is set, it does not list the commands with forAll.
func helpOf(c *cobra.Command, all bool) string { return c.Short + ".\n\n" + usageOf(c, all) }

func usageOf(c *cobra.Command, all bool) string {
	var b strings.Builder
	line := c.UseLine()
	if c.HasAvailableSubCommands() {
		line = c.CommandPath() + " [command]"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", line)
	if len(c.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAliases:\n  %s\n", c.NameAndAliases())
	}
	writeCommands(&b, c, all)
	fmt.Fprintf(&b, "\nFlags:\n%s\n\nExamples:\n%s\n\n", strings.TrimRight(c.LocalFlags().FlagUsages(), " \n"), c.Example)
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "Help of a command: %s [command] --help\n", c.CommandPath())
	}
	if len(c.Groups()) > 0 && !all {
		fmt.Fprintf(&b, "All commands: %s help --all\n", c.CommandPath())
	}
	if c.IsAvailableCommand() {
		fmt.Fprintf(&b, "Manual page: man %s\n", pageName(c))
	}
	fmt.Fprintf(&b, "Documentation: %s\n", c.Annotations["docs"])
	return b.String()
}

// writeCommands lists the commands below c, by group if c has groups.
func writeCommands(b *strings.Builder, c *cobra.Command, all bool) {
	list := func(title string, text func(*cobra.Command) string) {
		first := true
		for _, sub := range c.Commands() {
			said := text(sub)
			if said == "" {
				continue
			}
			if first {
				fmt.Fprintf(b, "\n%s\n", title)
			}
			first = false
			fmt.Fprintf(b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), said)
		}
	}
	described := func(group string) func(*cobra.Command) string {
		return func(sub *cobra.Command) string {
			isHelp := sub.Name() == "help" // not available in the sense of cobra, but listed
			if sub.GroupID != group || !sub.IsAvailableCommand() && !isHelp || !all && (sub.Annotations[forAll] != "" || isHelp) {
				return ""
			}
			return sub.Short
		}
	}
	for _, g := range c.Groups() {
		list(g.Title, described(g.ID))
	}
	if len(c.Groups()) == 0 {
		list("Commands:", described(""))
	}
	if all {
		list("Former names:", func(sub *cobra.Command) string {
			if now := sub.Annotations[nowCalled]; now != "" {
				return "Now: " + now
			}
			return ""
		})
	}
}

// setHelp gives root and all commands below it the same form of help. Details are in the manual pages. Cobra's templates
// would do the same, but make the program an eighth larger: the linker keeps all methods that a template might call.
func setHelp(root *cobra.Command) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(c.OutOrStdout(), helpOf(c, false)) })
	root.SetUsageFunc(func(c *cobra.Command) error {
		_, err := fmt.Fprint(c.OutOrStderr(), usageOf(c, false))
		return err
	})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	describeGenerated(root)
	helpWithAll(root)
	eachCommand(root, func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		c.Flags().Lookup("help").Usage = "print this help"
	})
}

// helpWithAll adds --all to the help command.
func helpWithAll(root *cobra.Command) {
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic(err) // this version of cobra does not add the command
	}
	all := help.Flags().Bool("all", false, "list all commands")
	help.Run = nil
	help.RunE = func(_ *cobra.Command, args []string) error {
		if *all && len(args) == 0 {
			_, err := fmt.Fprint(root.OutOrStdout(), helpOf(root, true))
			return err
		}
		c, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return ui.Usage(fmt.Errorf("help: unknown command %q", strings.Join(args, " ")), "achbridge help --all lists all commands")
		}
		return c.Help()
	}
}

// describeGenerated sets the help of the commands that cobra adds.
func describeGenerated(root *cobra.Command) {
	describe := func(short string, lines []string, path ...string) {
		c, _, err := root.Find(path)
		if err != nil {
			panic(err) // this version of cobra does not add the command
		}
		c.Short, c.Long, c.Example, c.Annotations = short, "", examples(lines...), docs("README.md")
		c.Annotations[forAll] = "true"
		if f := c.Flags().Lookup("no-descriptions"); f != nil {
			f.Usage = "omit the descriptions of completions"
		}
	}
	describe("Print the help of a command", []string{"achbridge help mirror", "achbridge help --all"}, "help")
	describe("Print a completion script for a shell", []string{"achbridge completion bash", "achbridge completion zsh"}, "completion")
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		needsCommand(c)
	}
	for shell, lines := range map[string][]string{
		"bash":       {"source <(achbridge completion bash)", "achbridge completion bash > /etc/bash_completion.d/achbridge"},
		"zsh":        {"source <(achbridge completion zsh)", `achbridge completion zsh > "${fpath[1]}/_achbridge"`},
		"fish":       {"achbridge completion fish | source", "achbridge completion fish > ~/.config/fish/completions/achbridge.fish"},
		"powershell": {"achbridge completion powershell | Out-String | Invoke-Expression", "achbridge completion powershell >> $PROFILE"},
	} {
		describe("Print the completion script for "+shell, lines, "completion", shell)
	}
}

// pageName returns the name of a command's manual page, as in achbridge-channel-put.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// eachCommand calls f with c and all commands below it.
func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, f)
	}
}

// build is the JSON output of `version`.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// release is the version of a packaged build, set by the linker (packaging/build.sh).
// It is empty in other builds.
var release string

func versionCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "version",
		Short:       "Print the version",
		Example:     examples("achbridge version", "achbridge version --json"),
		Annotations: docs("docs/configuration.md"),
		Args:        takes(),
		RunE: func(*cobra.Command, []string) error {
			b := buildOf(debug.ReadBuildInfo())
			if a.asJSON {
				return a.ui.JSON(b)
			}
			return a.ui.Line("%s", versionLine())
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

// versionLine returns the output of `version` and --version.
func versionLine() string {
	b := buildOf(debug.ReadBuildInfo())
	line := "achbridge " + b.Version
	if b.Revision != "" {
		line += " " + b.Revision[:min(12, len(b.Revision))]
	}
	if b.Modified {
		line += " (modified)"
	}
	return fmt.Sprintf("%s, %s, %s/%s", line, b.Go, b.OS, b.Arch)
}

// version returns the version of this program.
func version() string { return buildOf(debug.ReadBuildInfo()).Version }

func buildOf(info *debug.BuildInfo, ok bool) build {
	b := build{Version: cmp.Or(release, "(devel)"), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if !ok {
		return b
	}
	b.Version = cmp.Or(release, info.Main.Version, b.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
