package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"achbridge/bridge/layout"
	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/ui"
)

// typeRule says which file has the layout of the channels that match a pattern.
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

// matches reports whether the rule is for a channel of this host, or for HOST/CHANNEL, of which
// name is the mirror. A pattern of another host's channels is also one of their mirrors.
func (r typeRule) matches(channel, name string) bool {
	return rule.Match(r.pattern, channel) || rule.Match(r.pattern, name) || rule.Match(strings.Replace(r.pattern, "/", ".", 1), name)
}

// LayoutFor is the layout of a channel's frames, nil when the configuration has none for it.
// channel is what the user calls it, name what it is called on this host.
func (c *Config) LayoutFor(channel, name string) (*layout.Layout, error) {
	for _, r := range c.Types {
		if r.matches(channel, name) {
			return c.layout(r)
		}
	}
	return nil, nil
}

// layout reads the layout of a rule; its file is beside that of the configuration.
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

// LayoutProblems are the mistakes in the files that types names.
func (c *Config) LayoutProblems() Problems {
	_, all := c.Layouts()
	return all
}

// TypedChannels are the channels of this host whose names match a pattern, and their layout; nil
// when its file has mistakes.
type TypedChannels struct {
	Pattern string
	Layout  *layout.Layout
}

// Layouts are the layouts that types names for channels of this host, the first that matches
// counts, and the mistakes in all files that it names.
func (c *Config) Layouts() (own []TypedChannels, all Problems) {
	seen := map[string]bool{}
	for _, r := range c.Types {
		l, err := c.layout(r)
		if err != nil && !seen[r.file] {
			found, _ := errors.AsType[Problems](err)
			all = append(all, found...)
		}
		seen[r.file] = true
		if !strings.Contains(r.pattern, "/") {
			own = append(own, TypedChannels{r.pattern, l})
		}
	}
	return own, all
}

// LoadLayout reads a file with a layout. The error has every mistake, as Problems, unless the
// file cannot be read at all.
func LoadLayout(path string) (*layout.Layout, error) {
	text, err := ReadFile(path, layout.MaxText+1)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ui.NotFound(fmt.Errorf("layout: %w", err), "achbridge type import makes one")
	} else if err != nil {
		return nil, ui.Failure(fmt.Errorf("layout: %w", err), "")
	}
	return ReadLayout(path, text)
}
