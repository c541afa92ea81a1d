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

// addQoSFlags adds a flag to cmd for each option, with "-" instead of "_" in its name. setQoS reads these flags.
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

// setQoS sets the options in q that were given as flags.
func setQoS(q *rule.QoS, given *pflag.FlagSet) (err error) {
	given.Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(*qosValue); ok {
			err = errors.Join(err, q.Set(v.Key, v.value, config.ReadFile))
		}
	})
	return err
}

// qosValue is the pflag.Value of a quality of service option.
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
		return rule.WithoutKey(err) // pflag's error already names the flag
	}
	v.value = text
	return nil
}
