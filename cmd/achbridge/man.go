package main

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

// manCommand returns the command that writes the manual pages of all commands and of the configuration file. The build of
// the packages uses it.
func manCommand() *cobra.Command {
	var date string
	cmd := &cobra.Command{
		Use:         "man DIR",
		Short:       "Write the manual pages into a directory",
		Example:     examples("achbridge man pages", "achbridge man pages --date 2026-01-31"),
		Annotations: docs("CONTRIBUTING.md"),
		Hidden:      true,
		Args:        takes("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			day := time.Now()
			if date != "" {
				var err error
				if day, err = time.Parse(time.DateOnly, date); err != nil {
					return ui.Usage(fmt.Errorf("--date %q: want a day, as in 2026-01-31", date), "")
				}
			}
			if err := config.MissingFolder("manual pages", args[0]); err != nil {
				return err
			}
			if err := writePages(cmd.Root(), args[0], day.Format("Jan 2006")); err != nil {
				return ui.Failure(fmt.Errorf("manual pages: %w", err), "")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&date, "date", "", "date the pages `DAY`, as in 2026-01-31 (default today)")
	return cmd
}

// writePages writes a page for each command that help lists, a link for each former name, and achbridge.yaml(5).
func writePages(root *cobra.Command, dir, month string) (err error) {
	write := func(name string, text []byte) {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	forPrint(root)
	eachCommand(root, func(c *cobra.Command) {
		switch now := c.Annotations[nowCalled]; {
		case now != "":
			now, _, _ = strings.Cut(now, " --")
			write(pageName(c)+".1", []byte(".so man1/achbridge-"+strings.ReplaceAll(now, " ", "-")+".1\n"))
		case c.IsAvailableCommand() || c == root:
			write(pageName(c)+".1", md2man.Render([]byte(heading(pageName(c), "1", month)+pageOf(c))))
		}
	})
	write("achbridge.yaml.5", md2man.Render([]byte(heading("achbridge.yaml", "5", month)+config.ManualPage())))
	return err
}

// heading returns the first line of a page in Markdown, which has the header and footer of the manual page.
func heading(name, section, month string) string {
	return fmt.Sprintf("%% %q %q %q %q %q\n", strings.ToUpper(strings.ReplaceAll(name, "-", `\-`)), section, month, "achbridge", "Ach channels between hosts")
}

// pageOf returns the page of a command in Markdown.
func pageOf(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# NAME\n%s \\- %s\n\n# SYNOPSIS\n**%s**\n\n# DESCRIPTION\n%s\n", pageName(c), c.Short, config.InManual(c.UseLine()), manual(c))
	fmt.Fprintf(&b, "# OPTIONS\n%s\n# EXAMPLE\n```\n%s\n```\n\n# SEE ALSO\n", optionsOf(c), c.Example)
	var others []string
	if c.HasParent() {
		others = append(others, "**"+pageName(c.Parent())+"(1)**")
	} else {
		others = append(others, "**achbridge.yaml(5)**")
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			others = append(others, "**"+pageName(sub)+"(1)**")
		}
	}
	return b.String() + strings.Join(others, ", ") + "\n"
}

// usageLine matches a flag in a help text. Its groups are the letter, the name, the value and the description.
var usageLine = regexp.MustCompile(`^ +(?:-(\w), )?--([\w-]+) ?("[^"]*"|\S*) {2,}(.*)$`)

// optionsOf returns the flags of a command in Markdown, as --help describes them.
func optionsOf(c *cobra.Command) string {
	var b strings.Builder
	for line := range strings.Lines(c.LocalFlags().FlagUsages()) {
		m := usageLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		if m[1] != "" {
			fmt.Fprintf(&b, "**-%s**, ", m[1])
		}
		fmt.Fprintf(&b, "**--%s**", m[2])
		if m[3] != "" {
			fmt.Fprintf(&b, " *%s*", config.InManual(m[3]))
		}
		fmt.Fprintf(&b, "\n: %s\n\n", config.InManual(m[4]))
	}
	return b.String()
}

// manuals has the descriptions of commands for the manual pages, in Markdown. --help does not show them. A file has the name of its
// page.
//
//go:embed manual/*.md
var manuals embed.FS

// forPrint replaces this host's name in the default of --name, in cmd and its subcommands.
func forPrint(cmd *cobra.Command) {
	if name := cmd.Flags().Lookup("name"); name != nil && name.Value.Type() == "string" {
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
		text = []byte(cmd.Short + ".\n") // for a command without a file
	}
	lists := strings.NewReplacer("{variables}", quoted(config.Variables()), "{keys}", quoted(config.Keys()), "{kinds}", quoted(kindWords()))
	return lists.Replace(string(text)) + "\n# DOCUMENTATION\n\n" + cmd.Annotations["docs"] + "\n"
}

// quoted lists words as code in Markdown.
func quoted(words []string) string { return "`" + strings.Join(words, "`, `") + "`" }
