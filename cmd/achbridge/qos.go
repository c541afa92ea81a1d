package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"achbridge/bridge"
)

// addQoSFlags gives cmd options as flags, - in the place of _, which withQoS reads.
func addQoSFlags(cmd *cobra.Command, options []bridge.Option) {
	for _, o := range options {
		flag := strings.ReplaceAll(o.Key, "_", "-")
		cmd.Flags().Var(&qosValue{o, o.Text(bridge.QoS{})}, flag, o.Usage)
		if isSwitch(o.Words) {
			cmd.Flags().Lookup(flag).NoOptDefVal = "true"
		}
		_ = cmd.RegisterFlagCompletionFunc(flag,
			cobra.FixedCompletions(o.Words, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder))
	}
}

// withQoS writes the flags that were given behind the address of a wish, as
// bridge.ParseMirror reads them.
func withQoS(address string, given *pflag.FlagSet) string {
	given.Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(*qosValue); ok {
			address += "," + v.Key + "=" + v.value
		}
	})
	return address
}

// pushOptions are the options that a push can ask for.
func pushOptions() []bridge.Option {
	return slices.DeleteFunc(slices.Clone(bridge.Options()), func(o bridge.Option) bool { return o.Here })
}

// setQoS sets the flags that were given.
func setQoS(q *bridge.QoS, given *pflag.FlagSet) (err error) {
	given.Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(*qosValue); ok {
			err = errors.Join(err, q.Set(v.Key, v.value))
		}
	})
	return err
}

// qosValue is the value of one of the flags.
type qosValue struct {
	bridge.Option
	value string
}

// isSwitch reports whether the words of an option are those of one that is on or off.
func isSwitch(words []string) bool { return slices.Equal(words, []string{"false", "true"}) }

func (v *qosValue) Type() string {
	if isSwitch(v.Words) {
		return "bool"
	}
	return cmp.Or(v.Kind, strings.Join(v.Words, "|"))
}

func (v *qosValue) String() string { return v.value }

func (v *qosValue) Set(text string) error {
	if err := new(bridge.QoS).Set(v.Key, text); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), v.Key+" ")) // the flag is named already
	}
	v.value = text
	return nil
}

// qosText says what of to is not as in from, "" when all is.
func qosText(from, to bridge.QoS) string {
	var list []string
	for _, o := range bridge.Options() {
		if text := o.Text(to); text != o.Text(from) {
			list = append(list, o.Key+" "+text)
		}
	}
	return strings.Join(list, ", ")
}

// budgetOf is the budget that applies.
func budgetOf(q bridge.QoS) time.Duration { return cmp.Or(q.Budget, bridge.DefaultBudget) }

// dropsText says what became of the frames that did not get into the mirror,
// "" when all did.
func dropsText(a bridge.Accounts) string {
	var list []string
	for _, d := range dropsOf(a) {
		if d.count > 0 {
			list = append(list, fmt.Sprintf("%s %d", d.name, d.count))
		}
	}
	return strings.Join(list, ", ")
}

// fate is what became of a number of frames.
type fate struct {
	name  string
	count uint64
}

// fatesOf are the fates that frames can have.
func fatesOf(a bridge.Accounts) []fate {
	return append([]fate{{"delivered", a.Delivered}, {"late_kept", a.LateKept}}, dropsOf(a)...)
}

// dropsOf are the causes for which frames did not get into the mirror.
func dropsOf(a bridge.Accounts) []fate {
	return []fate{
		{"superseded", a.Superseded}, {"rate_limited", a.RateLimited}, {"expired", a.Expired}, {"lost", a.Lost},
		{"late", a.Late}, {"refused", a.Refused}, {"overflow", a.Overflow},
	}
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
