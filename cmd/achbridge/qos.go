package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"achbridge/bridge"
)

// qosOptions are the options of a wish: keys behind the address in
// `run --mirror` and in the configuration file, flags of `mirror`, where - takes
// the place of _.
var qosOptions = []qosOption{
	{"budget", "TIME", nil, "drop frames older than this",
		func(q bridge.QoS) string { return cmp.Or(q.Budget, bridge.DefaultBudget).String() }},
	{"max_rate", "HZ", nil, "frames a second at most",
		func(q bridge.QoS) string { return rateText(q.MaxRate) }},
	{"priority", "0..7", strings.Split("01234567", ""), "7 goes first, 0 last",
		func(q bridge.QoS) string { return q.Priority.String() }},
	{"mode", "", []string{"newest", "every"}, "which frames to send",
		func(q bridge.QoS) string { return q.Mode.String() }},
	{"compress", "", []string{"auto", "none", "s2", "zstd"}, "make frames smaller",
		func(q bridge.QoS) string { return q.Compress.String() }},
	{"late", "", []string{"drop", "deliver"}, "what arrives past its budget",
		func(q bridge.QoS) string { return q.Late.String() }},
	{"class", "", []string{"state", "command"}, "what the frames are",
		func(q bridge.QoS) string { return q.Class.String() }},
}

type qosOption struct {
	key   string
	kind  string   // of the value, in the help; empty: the words are
	words []string // that the value may be; nil: something else
	usage string
	text  func(bridge.QoS) string
}

func (o qosOption) flag() string { return strings.ReplaceAll(o.key, "_", "-") }

func rateText(r bridge.Rate) string {
	if r == 0 {
		return "none"
	}
	return r.String()
}

// addQoSFlags gives cmd the options as flags, which withQoS reads.
func addQoSFlags(cmd *cobra.Command) {
	for _, o := range qosOptions {
		cmd.Flags().Var(&qosValue{o, o.text(bridge.QoS{})}, o.flag(), o.usage)
		_ = cmd.RegisterFlagCompletionFunc(o.flag(),
			cobra.FixedCompletions(o.words, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder))
	}
}

// withQoS writes the flags that were given behind the address of a wish, as
// bridge.ParseMirror reads them.
func withQoS(address string, given *pflag.FlagSet) string {
	given.Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(*qosValue); ok {
			address += "," + v.key + "=" + v.value
		}
	})
	return address
}

// qosValue is the value of one of the flags.
type qosValue struct {
	qosOption
	value string
}

func (v *qosValue) Type() string   { return firstOf(v.kind, strings.Join(v.words, "|")) }
func (v *qosValue) String() string { return v.value }

func (v *qosValue) Set(text string) error {
	if err := new(bridge.QoS).Set(v.key, text); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), v.key+" ")) // the flag is named already
	}
	v.value = text
	return nil
}

// qosText says what of to is not as in from, "" when all is.
func qosText(from, to bridge.QoS) string {
	var list []string
	for _, o := range qosOptions {
		if text := o.text(to); text != o.text(from) {
			list = append(list, o.key+" "+text)
		}
	}
	return strings.Join(list, ", ")
}

// dropsText says what became of the frames that did not get into the mirror,
// "" when all did.
func dropsText(a bridge.Accounts) string {
	var list []string
	for _, cause := range []struct {
		name  string
		count uint64
	}{
		{"superseded", a.Superseded}, {"rate_limited", a.RateLimited}, {"expired", a.Expired}, {"lost", a.Lost},
		{"late", a.Late}, {"refused", a.Refused}, {"overflow", a.Overflow},
	} {
		if cause.count > 0 {
			list = append(list, fmt.Sprintf("%s %d", cause.name, cause.count))
		}
	}
	return strings.Join(list, ", ")
}

// deliveredText is how many frames got into the mirror, and how many of them
// past their budget.
func deliveredText(a bridge.Accounts) string {
	text := fmt.Sprint(a.Delivered + a.LateKept)
	if a.LateKept > 0 {
		text += fmt.Sprintf(" (%d late)", a.LateKept)
	}
	return text
}
