package main

import (
	"strings"

	"github.com/spf13/cobra"
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
