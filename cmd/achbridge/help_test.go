package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/view"
)

func newCommands() *cobra.Command {
	return newRoot(&app{ui: &ui.Terminal{}, Host: view.Host{Places: config.Places{Env: func(string) string { return "" }}}})
}

// describedFlags returns the printed description of each flag of cmd by its name, as in "stop after N lines (default 3)".
func describedFlags(cmd *cobra.Command) map[string]string {
	list := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)(?: "[^"]*"| \S+)? {2,}(.*)$`).FindAllStringSubmatch(cmd.LocalFlags().FlagUsages(), -1) {
		list[m[1]] = m[2]
	}
	return list
}

func TestHelpDescribesFlags(t *testing.T) {
	eachCommand(newCommands(), func(c *cobra.Command) {
		described := describedFlags(c)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			text := described[f.Name]
			switch isSwitch := f.Value.Type() == "bool"; {
			case f.Hidden:
			case text == "" || len([]rune(text)) > 60:
				t.Errorf("%s --%s: %q has %d characters, want 1 to 60", c.CommandPath(), f.Name, text, len([]rune(text)))
			case !isSwitch && !strings.Contains(text, "(default") && !strings.Contains(text, "(required)"):
				t.Errorf("%s --%s: %q, want its default, or (required)", c.CommandPath(), f.Name, text)
			}
		})
	})
}

// Help is one imperative sentence, the usage, the flags, two examples and a link. All else is in the manual page.
func TestHelpOfEachCommandIsShort(t *testing.T) {
	sentence := regexp.MustCompile(`^[A-Z][a-z]+,? [^.\n]{1,70}$`)
	thirdPerson := regexp.MustCompile(`^\w+s `)
	eachCommand(newCommands(), func(c *cobra.Command) {
		if !sentence.MatchString(c.Short) || thirdPerson.MatchString(c.Short) || c.Long != "" {
			t.Errorf("%s: %q and %q, want one imperative sentence of at most 70 characters", c.CommandPath(), c.Short, c.Long)
		}
		if n := strings.Count(c.Example, "\n") + 1; n != 2 {
			t.Errorf("%s: %d examples, want 2", c.CommandPath(), n)
		}
		file := strings.TrimPrefix(c.Annotations["docs"], docsDir)
		if _, err := os.Stat(filepath.Join("../..", file)); err != nil || file == "" {
			t.Errorf("%s: link to %q: %v", c.CommandPath(), c.Annotations["docs"], err)
		}
		if !strings.Contains(c.UsageString(), "\nDocumentation: "+docsDir) {
			t.Errorf("%s: help without a link:\n%s", c.CommandPath(), c.UsageString())
		}
	})
}

// words splits a command line of a shell, up to the end of its first simple command.
func words(line string) (list []string) {
	for _, w := range regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`).FindAllString(line, -1) {
		if strings.ContainsAny(w[:1], "|><#)") {
			break
		}
		list = append(list, strings.Trim(strings.TrimSuffix(w, ")"), `'"`))
	}
	return list
}

func TestHelpExamplesAreValid(t *testing.T) {
	eachCommand(newCommands(), func(c *cobra.Command) {
		for line := range strings.SplitSeq(c.Example, "\n") {
			_, line, ok := strings.Cut(line, "achbridge ")
			root := newCommands()
			called, args, err := root.Find(words(line))
			if !ok || err != nil || !strings.HasPrefix(called.CommandPath(), c.CommandPath()) {
				t.Errorf("%s: example %q: %v", c.CommandPath(), line, err)
				continue
			}
			if err := called.ParseFlags(args); err != nil {
				t.Errorf("%s: example %q: %v", c.CommandPath(), line, err)
			} else if err := called.ValidateArgs(called.Flags().Args()); err != nil {
				t.Errorf("%s: example %q: %v", c.CommandPath(), line, err)
			}
		}
	})
}

func TestManualsBelongToCommands(t *testing.T) {
	var pages []string
	eachCommand(newCommands(), func(c *cobra.Command) {
		pages = append(pages, strings.TrimPrefix(pageName(c), "achbridge-")+".md")
		if text := manual(c); strings.Contains(text, "{v") || strings.Contains(text, "{k") {
			t.Errorf("%s: unknown list in %s", c.CommandPath(), text)
		}
	})
	files, err := manuals.ReadDir("manual")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d manuals, %v", len(files), err)
	}
	for _, f := range files {
		if !slices.Contains(pages, f.Name()) && (withHub() || !strings.HasPrefix(f.Name(), "hub-")) {
			t.Errorf("manual/%s: no such command", f.Name())
		}
	}
}
