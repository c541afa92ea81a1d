package main

import (
	"fmt"
	"regexp"
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
		Use:    "man DIR",
		Short:  "Write the manual pages into a directory",
		Hidden: true,
		Args:   takes("DIR"),
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
	cmd.Flags().StringVar(&date, "date", "", "`DAY` that the pages bear")
	return cmd
}

// block matches indented lines of a help text, which must be printed verbatim.
var block = regexp.MustCompile(`(?m)((?:^ {2,}.*\n?)+)`)

// forPrint prepares the help texts of cmd and its subcommands for the Markdown that the
// manual pages are made from. It also replaces this host's name in the default of --name.
func forPrint(cmd *cobra.Command) {
	cmd.Long = block.ReplaceAllStringFunc(cmd.Long, func(text string) string {
		return "\n" + regexp.MustCompile(`(?m)^`).ReplaceAllString(text, "  ") + "\n"
	})
	if name := cmd.Flags().Lookup("name"); name != nil {
		name.DefValue = "this host's"
	}
	for _, c := range cmd.Commands() {
		forPrint(c)
	}
}
