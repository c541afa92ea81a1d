package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/unit"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

func waitCommand(a *app) *cobra.Command {
	w := waiting{until: status.HealthLive.String(), limit: 10 * time.Second}
	cmd := &cobra.Command{
		Use:         "wait [CHANNEL...]",
		Short:       "Wait until mirrors are live",
		Example:     examples("achbridge wait krang/imu 'atlas/*' --timeout 1m", "achbridge wait krang.imu --for stale"),
		Annotations: docs("docs/monitoring.md"),
		Args:        takes("[CHANNEL]..."),
		PreRunE: func(_ *cobra.Command, args []string) error {
			if w.limit < 0 {
				return ui.Usage(fmt.Errorf("--timeout %v: want a time, as in 10s, or 0", w.limit), "")
			}
			return w.of(args)
		},
		ValidArgsFunction: a.remoteNames,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := cmd.Context(), func() {}
			if w.limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, w.limit)
			}
			defer cancel()
			err := a.wait(ctx, a.daemon(), &w)
			if cmd.Context().Err() != nil {
				return ui.Failure(errors.New("interrupted"), "")
			}
			return err
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&w.until, "for", w.until, "wait for `STATE`, as in live or stale")
	cmd.Flags().DurationVar(&w.limit, "timeout", w.limit, "give up after `TIME`; 0 waits without limit")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(waitStates, cobra.ShellCompDirectiveNoFileComp))
	a.controlFlag(cmd)
	return cmd
}

// waitStates lists the values of --for, as in the HEALTH column of the tables.
var waitStates = healthWords()

func healthWords() (list []string) {
	for _, h := range status.Healths {
		list = append([]string{h.String()}, list...)
	}
	return list
}

// waiting holds the arguments and flags of wait, and its last note and error.
type waiting struct {
	until    string
	limit    time.Duration
	awaited  []wantedMirrors
	lastNote string
	last     error // why the last check failed; nil before the first
}

// wantedMirrors is one CHANNEL argument. An empty text means all mirrors.
type wantedMirrors struct {
	text    string
	matches func(status.Mirror) bool
}

// of checks --for and the arguments, and sets w.wanted from the arguments.
func (w *waiting) of(args []string) error {
	if !slices.Contains(waitStates, w.until) {
		return ui.Usage(fmt.Errorf("--for %s: want %s", w.until, ui.OrList(waitStates)), "")
	}
	for _, text := range args {
		matches, err := mirrorsOf(text)
		if err != nil {
			return err
		}
		w.awaited = append(w.awaited, wantedMirrors{text, matches})
	}
	if len(args) == 0 {
		w.awaited = []wantedMirrors{{"", func(status.Mirror) bool { return true }}}
	}
	return nil
}

// mirrorsOf returns a function that reports whether a mirror matches text: a name, an address, or a pattern of either.
func mirrorsOf(text string) (func(status.Mirror) bool, error) {
	if strings.Contains(text, "/") {
		a, err := rule.ParseAddress(text)
		if err != nil {
			return nil, ui.Usage(err, "")
		}
		return func(m status.Mirror) bool { return a.Matches(m.Host, m.Channel) }, nil
	}
	if err := rule.CheckPattern("", text); err != nil {
		return nil, ui.Usage(fmt.Errorf("%q: want HOST/CHANNEL, the name of a mirror, or a pattern", text), "")
	}
	return func(m status.Mirror) bool { return rule.Match(text, m.Name) }, nil
}

// waitEvery is the time between two checks.
const waitEvery = 100 * time.Millisecond

// wait checks the mirrors until all have the wanted state or ctx ends.
func (a *app) wait(ctx context.Context, c *api.Client, w *waiting) error {
	for {
		var s api.StatusReply
		_, err := c.Get(ctx, "/v1/status", &s)
		switch {
		case ctx.Err() != nil: // report the error of the last check
		case err == nil:
			err = w.check(s.Mirrors)
		case errors.Is(err, fs.ErrPermission):
			return err
		}
		if err == nil {
			return a.ui.Line("%s", w.doneText(s.Mirrors))
		}
		if ctx.Err() == nil {
			if text := strings.ReplaceAll(err.Error(), "\n", "; "); text != w.lastNote {
				w.lastNote = text
				a.ui.Note("waiting: %s", text)
			}
			w.last = err
		}
		if api.Rest(ctx, waitEvery); ctx.Err() == nil {
			continue
		}
		if w.last == nil {
			return err
		}
		return fmt.Errorf("gave up after %s%.0w", unit.Time(w.limit), w.last) // a note has already printed the reason
	}
}

// check returns nil if all wanted mirrors exist in the wanted state. Otherwise the error lists those that do not, with reasons.
func (w *waiting) check(mirrors []status.Mirror) error {
	var unknown, unlike []string
	var first string
	for _, wanted := range w.awaited {
		some := false
		for _, m := range mirrors {
			if m.Temporary || !wanted.matches(m) {
				continue
			}
			some = true
			if health := m.Health().String(); health != w.until {
				text := m.Name + " is " + health
				if why := diagnose.NoteOf(m); why != "" {
					text += ": " + why
				}
				if !slices.Contains(unlike, text) {
					unlike = append(unlike, text)
				}
				first = cmp.Or(first, m.Host+"/"+m.Channel)
			}
		}
		switch {
		case some:
		case wanted.text == "":
			unknown = append(unknown, "there is no mirror yet")
		default:
			unknown = append(unknown, "no mirror "+wanted.text+" is asked for, or its channel is not there yet")
		}
	}
	err := errors.New(strings.Join(append(unknown, unlike...), "\n"))
	switch {
	case len(unlike) > 0:
		return ui.Failure(err, "achbridge why "+first)
	case len(unknown) > 0:
		return ui.NotFound(err, "ask for it: achbridge mirror HOST/CHANNEL")
	}
	return nil
}

// doneText returns the final line: all wanted mirrors have the wanted state.
func (w *waiting) doneText(mirrors []status.Mirror) string {
	var names []string
	for _, m := range mirrors {
		if !m.Temporary && slices.ContainsFunc(w.awaited, func(wanted wantedMirrors) bool { return wanted.matches(m) }) {
			names = append(names, m.Name)
		}
	}
	if len(names) == 1 {
		return names[0] + " is " + w.until
	}
	return fmt.Sprintf("%d mirrors are %s", len(names), w.until)
}
