package main

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
)

// controlFlag adds --control to a command that talks to the daemon.
func (a *app) controlFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.control, "control", "", "connect to the daemon's socket `PATH` (default: that of run)")
	_ = cmd.MarkFlagFilename("control")
}

// configFlag adds --config to a command that reads a configuration.
func configFlag(cmd *cobra.Command, file *string, usage string) {
	cmd.Flags().StringVarP(file, "config", "c", "", usage)
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
}

// daemon returns a client of the daemon whose control socket --control names.
func (a *app) daemon() *api.Client { return a.Client(a.control) }

// countSet returns the number of flags that the user gave, not counting those in except.
func countSet(given *pflag.FlagSet, except ...string) (n int) {
	given.Visit(func(f *pflag.Flag) {
		if !slices.Contains(except, f.Name) {
			n++
		}
	})
	return n
}

// jsonFlag adds --json to cmd.
func (a *app) jsonFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&a.asJSON, "json", "j", false, "print JSON instead of text")
}

// anyNames completes HOST/CHANNEL and the names of this host's channels.
func (a *app) anyNames(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	remote, _ := a.remoteNames(cmd, args, typed)
	local, directive := a.channelNames(cmd, args, typed)
	return append(remote, local...), directive
}

// remoteNames completes HOST/CHANNEL with the channels that the daemon knows.
func (a *app) remoteNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		var list []status.RemoteChannel
		_, _ = a.daemon().Get(cmd.Context(), "/v1/channels", &list)
		for _, c := range list {
			names = append(names, c.Host+"/"+c.Channel)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// addQoSFlags adds a flag to cmd for the preset and for each option, with "-" instead of "_" in its name. presetFlag and
// setQoS read these flags.
func addQoSFlags(cmd *cobra.Command, options []rule.Option) {
	for _, o := range append([]rule.Option{rule.PresetOption()}, options...) {
		flag := strings.ReplaceAll(o.Key, "_", "-")
		cmd.Flags().Var(&qosValue{o, o.Text(rule.QoS{})}, flag, o.Usage)
		if rule.IsSwitch(o.Words) {
			cmd.Flags().Lookup(flag).NoOptDefVal = "true"
		}
		_ = cmd.RegisterFlagCompletionFunc(flag,
			cobra.FixedCompletions(o.Words, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder))
	}
}

// presetFlag returns the value of --preset, "" if the user did not give it.
func presetFlag(given *pflag.FlagSet) string {
	if f := given.Lookup(rule.PresetKey); f.Changed {
		return f.Value.String()
	}
	return ""
}

// setQoS sets in q the options that the user gave as flags. The caller must set the options of the preset before.
func setQoS(q *rule.QoS, given *pflag.FlagSet) (err error) {
	given.Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(*qosValue); ok && v.Key != rule.PresetKey {
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
