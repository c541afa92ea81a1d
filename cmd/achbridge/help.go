package main

import (
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

// docsDir is the directory into which the Debian package installs README.md and docs/.
const docsDir = "/usr/share/doc/achbridge/"

// docs returns the annotations of a command that is documented in a file of this repository.
func docs(file string) map[string]string { return map[string]string{"docs": docsDir + file} }

// examples formats the command lines that a command's help shows.
func examples(lines ...string) string { return "  " + strings.Join(lines, "\n  ") }

const helpTemplate = `{{.Short}}.

{{.UsageString}}`

const usageTemplate = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} [command]{{else}}{{.UseLine}}{{end}}{{if .Aliases}}

Aliases:
  {{.NameAndAliases}}{{end}}{{range $group := .Groups}}

{{.Title}}{{range $.Commands}}{{if and (eq .GroupID $group.ID) (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if and .HasAvailableSubCommands (not .Groups)}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}

Examples:
{{.Example}}

{{if .HasAvailableSubCommands}}Help of a command: {{.CommandPath}} [command] --help
{{end}}{{if .IsAvailableCommand}}Manual page: man {{index .Annotations "page"}}
{{end}}Documentation: {{index .Annotations "docs"}}
`

// setHelp gives root and all commands below it the same form of help. Details are in the manual pages.
func setHelp(root *cobra.Command) {
	root.SetHelpTemplate(helpTemplate)
	root.SetUsageTemplate(usageTemplate)
	root.InitDefaultVersionFlag()
	root.Flags().Lookup("version").Usage = "print the version"
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	describeGenerated(root)
	eachCommand(root, func(c *cobra.Command) {
		c.Annotations["page"] = pageName(c)
		c.InitDefaultHelpFlag()
		c.Flags().Lookup("help").Usage = "print this help"
	})
}

// describeGenerated sets the help of the commands that cobra adds.
func describeGenerated(root *cobra.Command) {
	describe := func(short string, lines []string, path ...string) {
		c, _, err := root.Find(path)
		if err != nil {
			panic(err) // cobra does not add this command any more
		}
		c.Short, c.Long, c.Example, c.Annotations = short, "", examples(lines...), docs("README.md")
		if f := c.Flags().Lookup("no-descriptions"); f != nil {
			f.Usage = "omit the descriptions of completions"
		}
	}
	describe("Print the help of a command", []string{"achbridge help mirror", "achbridge help channel put"}, "help")
	describe("Print a completion script for a shell", []string{"achbridge completion bash", "achbridge completion zsh"}, "completion")
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

// manCommand returns the command that writes the manual pages of all commands. The build of the packages uses it.
func manCommand() *cobra.Command {
	var date string
	cmd := &cobra.Command{
		Use:         "man DIR",
		Short:       "Write the manual pages into a directory",
		Example:     examples("achbridge man man1", "achbridge man man1 --date 2026-01-31"),
		Annotations: docs("CONTRIBUTING.md"),
		Hidden:      true,
		Args:        takes("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			header := &doc.GenManHeader{Section: "1", Source: "achbridge", Manual: "Ach channels between hosts"}
			if date != "" {
				day, err := time.Parse(time.DateOnly, date)
				if err != nil {
					return ui.Usage(fmt.Errorf("--date %q: want a day, as in 2026-01-31", date), "")
				}
				header.Date = &day
			}
			if err := config.MissingFolder("manual pages", args[0]); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			forPrint(root)
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return ui.Failure(fmt.Errorf("manual pages: %w", err), "")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&date, "date", "", "date the pages `DAY`, as in 2026-01-31 (default today)")
	return cmd
}

// manuals holds the descriptions of the manual pages, in Markdown. Help omits them. A file is named after its page.
//
//go:embed manual/*.md
var manuals embed.FS

// forPrint sets the description of the manual pages of cmd and its subcommands. It also
// replaces this host's name in the default of --name.
func forPrint(cmd *cobra.Command) {
	cmd.Long = manual(cmd)
	if name := cmd.Flags().Lookup("name"); name != nil {
		name.DefValue = "this host's"
	}
	for _, c := range cmd.Commands() {
		forPrint(c)
	}
}

// manual returns the description of a command in its manual page.
func manual(cmd *cobra.Command) string {
	text, err := manuals.ReadFile("manual/" + strings.TrimPrefix(pageName(cmd), "achbridge-") + ".md")
	if err != nil {
		text = []byte(cmd.Short + ".\n") // the command needs no more words
	}
	lists := strings.NewReplacer("{variables}", quoted(config.Variables()), "{keys}", quoted(config.Keys()), "{kinds}", quoted(kindWords()))
	return lists.Replace(string(text)) + "\n# DOCUMENTATION\n\n" + cmd.Annotations["docs"] + "\n"
}

// quoted lists words as code in Markdown.
func quoted(words []string) string { return "`" + strings.Join(words, "`, `") + "`" }
