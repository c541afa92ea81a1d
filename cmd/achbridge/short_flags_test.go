package main

import (
	"io"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

// letters are the flags that have a letter, in all verbs that have the flag.
var letters = map[string]string{
	"config": "c", "count": "n", "follow": "f", "help": "h", "json": "j", "once": "1", "out": "o", "output": "o", "since": "S", "version": "v", "watch": "w",
}

// notOf are flags that have the name of another kind of thing: a share of the processor.
var notOf = map[string]bool{"run --watch": true}

func TestALetterMeansTheSameInAllVerbs(t *testing.T) {
	t.Parallel()
	root := newRoot(&app{ui: &ui.Terminal{Out: io.Discard, Err: io.Discard}, Places: config.Places{Env: func(string) string { return "" }}})
	names := map[string]map[string]bool{} // by letter
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			at := verb(cmd) + " --" + f.Name
			want, has := letters[f.Name]
			if notOf[at] || f.Hidden {
				return
			}
			if f.Name == "rate" {
				want, has = "r", true
			}
			if has && f.Shorthand != want {
				t.Errorf("%s: letter %q, want %q as elsewhere", at, f.Shorthand, want)
			}
			if f.Shorthand != "" {
				if names[f.Shorthand] == nil {
					names[f.Shorthand] = map[string]bool{}
				}
				names[f.Shorthand][f.Name] = true
			}
		})
		for _, c := range cmd.Commands() {
			look(c)
		}
	}
	look(root)
	names["o"] = map[string]bool{"output": len(names["o"]) == 2} // --out and --output are the file to write
	for letter, list := range names {
		if len(list) > 1 {
			t.Errorf("-%s stands for %v: want one flag", letter, list)
		}
	}
	if len(names) < 9 {
		t.Errorf("got %d letters, want at least 9", len(names))
	}
}
