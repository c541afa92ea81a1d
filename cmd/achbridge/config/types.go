package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"achbridge/bridge/layout"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/cmd/achbridge/protofile"
	"achbridge/cmd/achbridge/ui"
)

// typeRule assigns a layout to the channels that match a pattern.
type typeRule struct {
	pattern string
	source  layoutSource
}

// layoutSource is a value of the option types: it names a layout file, a message of a protobuf file, or the files of variants.
type layoutSource struct {
	file     string // "" if there are variants
	message  string // name of the message if file is a protobuf file, else ""
	by       string // name of the field that determines the variant; "" means that the first variant that a frame matches applies
	variants []variantSource
	at       origin
}

type variantSource struct {
	value  string // value of the field by, as a number or a name; "" without by
	at     origin
	source layoutSource
}

// types parses the option types: patterns of channels, each with a layout.
func (p *configParser) types(in pair) (rules []typeRule) {
	for _, t := range p.mapping(in.value, in.at, "patterns of channels, each with the file of its layout, as in imu: types/imu.yaml") {
		for half := range strings.SplitSeq(t.key, "/") {
			if err := rule.CheckPattern("channel", half); err != nil {
				p.add(t.at, "%v", err)
				break
			}
		}
		if source, ok := p.layoutSource(t.value, t.at); ok {
			rules = append(rules, typeRule{t.key, source})
		}
	}
	return rules
}

// layoutSource reads one value of types: a file, a list of files, or a mapping.
func (p *configParser) layoutSource(n ast.Node, under origin) (s layoutSource, ok bool) {
	switch n := n.(type) {
	case *ast.SequenceNode:
		s.at = under.or(p.place(n))
		for i, item := range n.Values {
			at := under.index(i)
			file, good := p.layoutFile(item, at)
			s.variants = append(s.variants, variantSource{at: file.at, source: file})
			ok = (ok || i == 0) && good
		}
		if len(n.Values) == 0 {
			p.add(s.at, "there is no value; want the file of a layout")
		}
		return s, ok
	case *ast.MappingNode, *ast.MappingValueNode:
		return p.layoutKeys(n, under)
	}
	return p.layoutFile(n, under)
}

func (p *configParser) layoutFile(n ast.Node, under origin) (s layoutSource, ok bool) {
	v, ok := p.scalar(n, under, "types/imu.yaml")
	if ok && v.text == "" {
		p.add(v.at, "there is no value; want the file of a layout")
	}
	return layoutSource{file: v.text, at: v.at}, ok && v.text != ""
}

// layoutKeys reads a value of types that is a mapping: a protobuf file and its message, or layout files by the value of a field.
func (p *configParser) layoutKeys(n ast.Node, under origin) (s layoutSource, ok bool) {
	s.at = under.or(p.place(n))
	before := len(p.Problems)
	text := func(in pair, example string) string {
		v, _ := p.scalar(in.value, in.at, example)
		return v.text
	}
	for _, in := range p.mapping(n, under, "the layouts by the value of a field, as in {by: header.kind, 1: types/imu.yaml}") {
		switch in.key {
		case "by":
			s.by = text(in, "header.kind")
		case "proto":
			s.file = text(in, "robot.proto")
		case "message":
			s.message = text(in, "robot.State")
		default:
			file, _ := p.layoutFile(in.value, in.at)
			s.variants = append(s.variants, variantSource{in.key, in.at, file})
		}
	}
	isProtobuf := s.file != "" && s.message != "" && s.by == "" && s.variants == nil
	if isVariants := s.file == "" && s.message == "" && s.by != "" && s.variants != nil; len(p.Problems) == before && !isProtobuf && !isVariants {
		p.add(s.at, "want {by: header.kind, 1: types/imu.yaml, 2: types/arm.yaml} or {proto: robot.proto, message: robot.State}")
	}
	return s, len(p.Problems) == before
}

// LayoutFor is the layout of a channel's frames, nil when the configuration has none for it.
// channel is what the user calls it, name what it is called on this host.
func (c *Config) LayoutFor(channel, name string) (*layout.Layout, error) {
	for _, r := range c.Types {
		if rule.MatchType(r.pattern, channel, name) {
			return c.layout(r.source)
		}
	}
	return nil, nil
}

// layout reads the layout that from names. File names are relative to the directory of the configuration file.
func (c *Config) layout(from layoutSource) (l *layout.Layout, err error) {
	switch {
	case from.variants != nil:
		l, err = c.variants(from)
	case from.message != "":
		l, err = protobufLayout(c.nextTo(from.file), from.message)
	default:
		l, err = LoadLayout(c.nextTo(from.file))
	}
	if _, inFile := errors.AsType[Problems](err); err != nil && !inFile {
		err = ui.Usage(Problems{{from.at, err.Error()}}, "")
	}
	return l, err
}

func protobufLayout(path, message string) (*layout.Layout, error) {
	f, err := protofile.Open(path)
	if err != nil {
		return nil, err
	}
	return f.Layout(message)
}

// nextTo returns the path of a file whose name is relative to the directory of the configuration file.
func (c *Config) nextTo(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(filepath.Dir(c.Path), file)
}

// variants reads the layout files that from names, and makes one layout with variants of them.
func (c *Config) variants(from layoutSource) (*layout.Layout, error) {
	all := &layout.Layout{By: from.by}
	var names []string
	for _, v := range from.variants {
		one, err := c.layout(v.source)
		if err != nil {
			return nil, err
		}
		value := int64(0)
		if from.by != "" {
			if value, err = one.ValueOf(from.by, v.value); err != nil {
				return nil, Problems{{v.at, err.Error()}}
			}
		}
		all.Variants = append(all.Variants, layout.Variant{Value: value, Layout: *one})
		names = append(names, one.Name)
	}
	all.Name = strings.Join(names, "|")
	all.Name = all.Name[:min(len(all.Name), layout.MaxName)]
	found := all.Check()
	if len(found) == 0 {
		return all, nil
	}
	at := from.at
	if len(found[0].Path) > 0 {
		at = from.variants[found[0].Path[0]].at
	}
	return nil, Problems{{at, found[0].Text}}
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
	for _, r := range c.Types {
		l, err := c.layout(r.source)
		found, _ := errors.AsType[Problems](err)
		for _, problem := range found {
			if !slices.Contains(all, problem) { // several rules may name a file
				all = append(all, problem)
			}
		}
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
			add(m.From, m.Host+"/"+m.Channel, m.Into(m.Host, m.Channel), "", m)
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
	if filepath.Ext(path) == ".proto" {
		return nil, ui.Usage(fmt.Errorf("layout: %s is a protobuf file: want a layout file, or in the option types {proto: FILE, message: NAME}", path),
			"achbridge type import "+path+" MESSAGE makes a layout file")
	}
	text, err := ReadFile(path, layout.MaxText+1)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ui.NotFound(fmt.Errorf("layout: %w", err), "achbridge type import makes one")
	} else if err != nil {
		return nil, ui.Failure(fmt.Errorf("layout: %w", err), "")
	}
	return ReadLayout(path, text)
}
