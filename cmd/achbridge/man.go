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
