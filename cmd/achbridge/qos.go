package main

import (
	"cmp"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/config"
)

// addQoSFlags gives cmd options as flags, - in the place of _, which setQoS reads.
func addQoSFlags(cmd *cobra.Command, options []rule.Option) {
	for _, o := range options {
		flag := strings.ReplaceAll(o.Key, "_", "-")
		cmd.Flags().Var(&qosValue{o, o.Text(rule.QoS{})}, flag, o.Usage)
		if rule.IsSwitch(o.Words) {
			cmd.Flags().Lookup(flag).NoOptDefVal = "true"
		}
		_ = cmd.RegisterFlagCompletionFunc(flag,
			cobra.FixedCompletions(o.Words, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder))
	}
}

// setQoS sets the flags that were given.
func setQoS(q *rule.QoS, given *pflag.FlagSet) (err error) {
	given.Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(*qosValue); ok {
			err = errors.Join(err, q.Set(v.Key, v.value, config.ReadFile))
		}
	})
	return err
}

// qosValue is the value of one of the flags.
type qosValue struct {
	rule.Option
	value string
}

func (v *qosValue) Type() string {
	if rule.IsSwitch(v.Words) {
		return "bool"
	}
	return cmp.Or(v.Kind, strings.Join(v.Words, "|"))
}

func (v *qosValue) String() string { return v.value }

func (v *qosValue) Set(text string) error {
	if err := new(rule.QoS).Set(v.Key, text, config.ReadFile); err != nil {
		return rule.WithoutKey(err) // the flag is named already
	}
	v.value = text
	return nil
}
