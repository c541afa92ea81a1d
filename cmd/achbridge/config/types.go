package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"achbridge/bridge/layout"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/cmd/achbridge/ui"
)

// typeRule assigns a layout file to the channels that match a pattern.
type typeRule struct {
	pattern, file string
	at            origin
}

// types reads the patterns and files of `types:`.
func (p *configParser) types(in pair) (rules []typeRule) {
	for _, t := range p.mapping(in.value, in.at, "patterns of channels, each with the file of its layout, as in imu: types/imu.yaml") {
		v, ok := p.scalar(t.value, t.at, "types/imu.yaml")
		if !ok {
			continue
		}
		for half := range strings.SplitSeq(t.key, "/") {
			if err := rule.CheckPattern("channel", half); err != nil {
				p.add(t.at, "%v", err)
				break
			}
		}
		if v.text == "" {
			p.add(v.at, "there is no value; want the file of a layout")
		}
		rules = append(rules, typeRule{t.key, v.text, v.at})
	}
	return rules
}

// LayoutFor is the layout of a channel's frames, nil when the configuration has none for it.
// channel is what the user calls it, name what it is called on this host.
func (c *Config) LayoutFor(channel, name string) (*layout.Layout, error) {
	for _, r := range c.Types {
		if rule.MatchType(r.pattern, channel, name) {
			return c.layout(r)
		}
	}
	return nil, nil
}

// layout reads the layout of a rule. The path of its file is relative to the configuration file.
func (c *Config) layout(r typeRule) (*layout.Layout, error) {
	file := r.file
	if !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(c.Path), file)
	}
	l, err := LoadLayout(file)
	if _, inFile := errors.AsType[Problems](err); err != nil && !inFile {
		err = ui.Usage(Problems{{r.at, err.Error()}}, "")
	}
	return l, err
}

// TypedChannels is a pattern of channels, which may be HOST/CHANNEL, with their layout. The layout
// is nil if its file has errors.
type TypedChannels struct {
	Pattern string
	Layout  *layout.Layout
}

// Layouts returns the layouts of the option types, and the errors in their files. The first entry that
// matches a channel applies.
func (c *Config) Layouts() (list []TypedChannels, all Problems) {
	seen := map[string]bool{}
	for _, r := range c.Types {
		l, err := c.layout(r)
		if err != nil && !seen[r.file] {
			found, _ := errors.AsType[Problems](err)
			all = append(all, found...)
		}
		seen[r.file] = true
		list = append(list, TypedChannels{r.pattern, l})
	}
	return list, all
}

// Unshifted returns a sentence for each rule without the option stamps whose channel has a layout with fields that look
// like time stamps. It considers rules that name one channel.
func (c *Config) Unshifted() (list []string) {
	add := func(from, channel, name, unless string, qos rule.Mirror) {
		l, err := c.LayoutFor(channel, name)
		guess := stamps.Guess(l)
		isSet := slices.ContainsFunc(c.options(from, qos), func(o optionValue) bool { return o.Option == "stamps" && o.From != "default" })
		if err == nil && guess != "" && !isSet {
			list = append(list, fmt.Sprintf("%s: the frames of %s seem to have time stamps; if they count from the boot of their host, set stamps: %q, or none%s", c.ruleText(from), channel, guess, unless))
		}
	}
	for _, m := range c.MirrorRules {
		if !m.Deny && !rule.IsPattern(m.Host) && !rule.IsPattern(m.Channel) {
			add(m.From, m.Host+"/"+m.Channel, m.Name(m.Host, m.Channel), "", m)
		}
	}
	for _, g := range c.AcceptGrants {
		for _, name := range g.Channels {
			if !g.Deny && !rule.IsPattern(name) {
				add(g.From, name, name, "", rule.Mirror{QoS: g.QoS})
			}
		}
	}
	for _, p := range c.PushRules {
		if !p.Deny && !rule.IsPattern(p.Channel) && !rule.IsAchd(p.Host) {
			add(p.From, p.Channel, p.Channel, ", unless the accept rule of "+p.Host+" has the option", rule.Mirror{QoS: p.QoS})
		}
	}
	return list
}

// LoadLayout reads a layout file. Its error has every error of the layout, as Problems, unless
// the file cannot be read at all.
func LoadLayout(path string) (*layout.Layout, error) {
	text, err := ReadFile(path, layout.MaxText+1)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ui.NotFound(fmt.Errorf("layout: %w", err), "achbridge type import makes one")
	} else if err != nil {
		return nil, ui.Failure(fmt.Errorf("layout: %w", err), "")
	}
	return ReadLayout(path, text)
}
