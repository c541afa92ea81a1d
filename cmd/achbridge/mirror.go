package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

func mirrorCommand(a *app) *cobra.Command {
	var as string
	var set []string
	var off, remove bool
	cmd := &cobra.Command{
		Use:               "mirror HOST/CHANNEL",
		Short:             "Mirror a channel of another host on this host, or stop that",
		Example:           examples("achbridge mirror krang/imu --preset command", "achbridge mirror 'krang/*' --off"),
		Annotations:       docs("docs/qos.md"),
		Args:              takes("HOST/CHANNEL"),
		ValidArgsFunction: a.remoteNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			daemon := a.daemon()
			switch others := countSet(cmd.Flags(), "off", "rm", "control"); {
			case off && others > 0:
				return ui.Usage(errors.New("--off stops mirroring; give no options with it, except --rm"), "")
			case off:
				return a.unmirror(cmd.Context(), daemon, args[0], remove)
			case remove:
				return ui.Usage(errors.New("--rm removes the channel of a mirror that --off stops"), "achbridge mirror "+args[0]+" --off --rm")
			}
			request, err := mirrorRequest(a.mirrorMeant(cmd.Context(), daemon, args[0]), as, cmd.Flags())
			if err != nil {
				return ui.Usage(err, "")
			}
			if len(set) > 0 {
				if request != (rule.Mirror{Host: request.Host, Channel: request.Channel}) {
					return ui.Usage(errors.New("--set changes options one by one; give no other options with it"), "")
				}
				if request, err = a.changed(cmd.Context(), daemon, request, set); err != nil {
					return err
				}
			}
			return a.mirror(cmd.Context(), daemon, request)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&off, "off", false, "stop mirroring")
	cmd.Flags().BoolVar(&remove, "rm", false, "with --off: remove the mirror's channel too")
	cmd.Flags().StringArrayVar(&set, "set", nil, "change only `OPTION=VALUE` of a mirror (default: set all)")
	cmd.Flags().StringVar(&as, "as", "", "call the mirror `NAME` (default HOST.CHANNEL)")
	addQoSFlags(cmd, rule.Options())
	a.controlFlag(cmd)
	return cmd
}

// mirrorMeant returns the HOST/CHANNEL of the mirror named text, or text itself if no mirror has that name.
func (a *app) mirrorMeant(ctx context.Context, c *api.Client, text string) string {
	var s api.StatusReply
	if strings.ContainsAny(text, "/,") {
		return text
	}
	_, _ = c.Get(ctx, "/v1/status", &s) // if no daemon answers, s has no mirrors
	for _, m := range s.Mirrors {
		if m.Name == text {
			return m.Host + "/" + m.Channel
		}
	}
	return text
}

// mirrorRequest returns the mirror request for an address, with the options given as flags.
func mirrorRequest(address, as string, given *pflag.FlagSet) (rule.Mirror, error) {
	if preset := presetFlag(given); preset != "" {
		address += "," + rule.PresetKey + "=" + preset
	}
	request, err := rule.ParseMirror(address, config.ReadFile)
	if err != nil {
		return request, err
	}
	if as != "" {
		err = request.Set("as", as, config.ReadFile)
	}
	err = errors.Join(err, setQoS(&request.QoS, given))
	if err == nil {
		err = request.Check()
	}
	if err != nil {
		return request, fmt.Errorf("mirror %q: %w", address, err)
	}
	return request, nil
}

// changed returns the request that currently mirrors an address, with the options in set changed.
func (a *app) changed(ctx context.Context, c *api.Client, address rule.Mirror, set []string) (rule.Mirror, error) {
	var request rule.Mirror
	of := address.Host + "/" + address.Channel
	if _, err := c.Get(ctx, "/v1/mirror-request?of="+url.QueryEscape(of), &request); err != nil {
		return request, err
	}
	request.Host, request.Channel = address.Host, address.Channel
	for _, setting := range set {
		key, value, ok := strings.Cut(setting, "=")
		if !ok {
			return request, ui.Usage(fmt.Errorf("--set %s: want OPTION=VALUE, as in priority=7", setting), "")
		}
		if err := request.Set(strings.ReplaceAll(key, "-", "_"), value, config.ReadFile); err != nil {
			return request, ui.Usage(fmt.Errorf("--set %s: %w", setting, err), "")
		}
	}
	if err := request.Check(); err != nil {
		return request, ui.Usage(fmt.Errorf("mirror %s: %w", of, err), "")
	}
	return request, nil
}

// mirror sends a mirror request to the daemon and prints the resulting mirrors.
func (a *app) mirror(ctx context.Context, c *api.Client, request rule.Mirror) error {
	var before api.StatusReply
	if _, err := c.Get(ctx, "/v1/status", &before); err != nil {
		return err
	}
	var made []status.Mirror
	if err := c.Post(ctx, "/v1/mirror", request, &made); err != nil {
		return err
	}
	for _, m := range made {
		a.ui.Line("%s", mirrorText(m, before.Mirrors))
		if other := rule.Differences(request.QoS, m.QoS); other != "" {
			a.ui.Note("%s/%s has %s, as another request for it says", m.Host, m.Channel, other)
		}
	}
	if len(made) == 0 {
		a.ui.Note("%s/%s: nothing to mirror yet; it begins when the channel appears", request.Host, request.Channel)
	}
	return nil
}

// mirrorText describes a mirror after a mirror request: its name and health. If it existed
// before, mirrorText also describes the changes of its quality of service and name.
func mirrorText(m status.Mirror, before []status.Mirror) string {
	text, end := m.Host+"/"+m.Channel, ""
	for _, old := range before {
		if old.Host != m.Host || old.Channel != m.Channel {
			continue
		}
		if changes := rule.Changes(old.QoS, m.QoS); changes != "" {
			text += ": " + changes + "; it"
		}
		if old.Name != m.Name {
			end = "; nothing feeds " + old.Name + " any more"
		}
	}
	text += " is " + m.Name + " here, " + m.Health().String()
	if mark := diagnose.MarkOf(m.Unauthenticated); mark != "" {
		text += " " + mark
	}
	if m.Reason != "" {
		text += ": " + m.Reason
	}
	return text + end
}

func unmirrorCommand(a *app) *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:         "unmirror HOST/CHANNEL|MIRROR",
		Short:       "Stop mirroring a channel",
		Example:     examples("achbridge unmirror krang/imu", "achbridge unmirror 'krang/*' --rm"),
		Annotations: docs("docs/configuration.md"),
		Args:        takes("HOST/CHANNEL|MIRROR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.unmirror(cmd.Context(), a.daemon(), args[0], remove)
		},
	}
	cmd.Flags().BoolVar(&remove, "rm", false, "remove the mirror's channel too")
	a.controlFlag(cmd)
	return cmd
}

// unmirror ends the request for a mirror and prints the result. remove removes the mirror's channel.
func (a *app) unmirror(ctx context.Context, c *api.Client, name string, remove bool) error {
	mirror, err := rule.ParseMirror(a.mirrorMeant(ctx, c, name), config.ReadFile)
	if err != nil {
		return ui.Usage(err, "")
	}
	request := api.UnmirrorRequest{Host: mirror.Host, Channel: mirror.Channel, Remove: remove}
	var became api.UnmirrorReply
	if err := c.Post(ctx, "/v1/unmirror", request, &became); err != nil {
		return err
	}
	if len(became.Mirrors) == 0 {
		return a.ui.Line("%s is not asked for any more; it had made no mirror", name)
	}
	for _, m := range became.Mirrors {
		a.ui.Line("%s", unmirrorText(m, remove))
	}
	return nil
}

// unmirrorText describes the effect of unmirror on one mirror: it ended, or another request still keeps it.
func unmirrorText(m api.Unmirrored, removed bool) string {
	text, file := m.Host+"/"+m.Channel, "the channel "+m.Name+" stays"
	if removed {
		file = "the channel " + m.Name + " is removed"
	}
	if m.Still == nil {
		return text + " is not mirrored any more; " + file
	}
	text += " is still mirrored, as " + m.Still.Host + "/" + m.Still.Channel + " asks"
	if changes := rule.Changes(m.QoS, m.Still.QoS); changes != "" {
		text += ": " + changes
	}
	if name := m.Still.Name(m.Host, m.Channel); name != m.Name {
		text += "; it is " + name + " now, and " + file
	}
	return text
}

func pushCommand(a *app) *cobra.Command {
	var accept bool
	cmd := &cobra.Command{
		Use:               "push CHANNEL HOST[/NAME]",
		Short:             "Offer a channel of this host to another host",
		Example:           examples("achbridge push goal krang", "achbridge push camera krang/pc.camera --max-rate 5"),
		Annotations:       docs("docs/qos.md"),
		Args:              takes("CHANNEL", "HOST[/NAME]"),
		ValidArgsFunction: a.channelNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := rule.ParsePush(args[0], args[1])
			if preset := presetFlag(cmd.Flags()); err == nil && preset != "" {
				err = request.QoS.Set(rule.PresetKey, preset, nil)
			}
			if err == nil {
				err = setQoS(&request.QoS, cmd.Flags())
			}
			if err == nil {
				err = request.QoS.Check()
			}
			if err != nil {
				return ui.Usage(err, "")
			}
			var pushed status.Push
			if err := a.daemon().Post(cmd.Context(), "/v1/push", api.Push{Push: request, AcceptMachine: accept}, &pushed); err != nil {
				return err
			}
			text := request.Channel + " is pushed to " + request.Host
			if request.As != "" {
				text += " as " + request.As
			}
			state := strings.TrimSpace(pushed.State.String() + " " + diagnose.MarkOf(pushed.Unauthenticated))
			a.ui.Line("%s, %s", text, state)
			if pushed.State != status.PushAccepted {
				a.ui.Note("%s", pushed.Reason)
			}
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	addQoSFlags(cmd, rule.PushOptions())
	cmd.Flags().BoolVar(&accept, "accept-machine", false, "accept that HOST now runs on another machine")
	a.controlFlag(cmd)
	return cmd
}
