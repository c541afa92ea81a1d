package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/ui"
)

// ruleEntry is one entry of export, accept, mirror, merge, push, mux or channels as it is written: as text, or as
// a mapping with the same meaning.
type ruleEntry struct {
	at      origin
	text    string // empty for a mapping
	mapping bool
	options []ruleOption
	broken  bool // it could not be read; the problem is recorded
}

// ruleOption is one key of a rule with its values.
type ruleOption struct {
	key    string
	at     origin
	values []value
}

// option returns the rule's option with that key; false when the rule does not have it.
func (r ruleEntry) option(key string) (ruleOption, bool) {
	i := slices.IndexFunc(r.options, func(o ruleOption) bool { return o.key == key })
	if i < 0 {
		return ruleOption{}, false
	}
	return r.options[i], true
}

// preset returns the name of the rule's preset, "" if it has none.
func (r ruleEntry) preset() string {
	if o, ok := r.option(rule.PresetKey); ok && len(o.values) > 0 {
		return o.values[0].text
	}
	return ""
}

// rules reads the rules of one list of the file.
func (p *configParser) rules(key configKey, in pair) ([]ruleEntry, bool) {
	items, ok := []ast.Node{in.value}, true
	if _, single := in.value.(*ast.MappingNode); !single || key.name != "record.when" {
		items, ok = p.items(in.value, in.at, key.example)
	}
	rules := make([]ruleEntry, 0, len(items))
	for i, item := range items {
		under := in.at.index(i).or(p.place(item))
		under.Path = in.at.index(i).Path
		switch item.(type) {
		case *ast.MappingNode, *ast.MappingValueNode:
			rules = append(rules, p.ruleOf(key, item, under))
		default:
			if v, good := p.scalar(item, under, key.example); good {
				rules = append(rules, ruleEntry{at: under, text: v.text})
			}
		}
	}
	return rules, ok
}

func (p *configParser) ruleOf(list configKey, n ast.Node, under origin) ruleEntry {
	r := ruleEntry{at: under, mapping: true}
	keys := ruleKeysOf(list.name)
	for _, in := range p.mapping(n, under, "a rule") {
		i := slices.IndexFunc(keys, func(k ruleKey) bool { return k.name == in.key })
		if i < 0 {
			p.add(in.at, "%s", unknownIn(list.name, in.key))
			continue
		}
		o := ruleOption{key: in.key, at: in.at}
		example := cmp.Or(keys[i].example, ui.OrList(keys[i].words))
		if _, several := in.value.(*ast.SequenceNode); several && keys[i].many {
			o.values, _ = p.list(in.value, in.at, example)
		} else if v, ok := p.scalar(in.value, in.at, example); ok {
			o.values = []value{v}
		}
		r.options = append(r.options, o)
	}
	return r
}

// unknownIn returns the text for a key that rules of the list do not have. The text names the
// other lists that have the key.
func unknownIn(list, key string) string {
	names := []string{}
	for _, k := range ruleKeysOf(list) {
		names = append(names, k.name)
	}
	for _, k := range ruleKeys() {
		if k.name == key {
			return fmt.Sprintf("rules of %s do not have this key, those of %s do; the keys here are %s", list, ui.AndList(k.lists), ui.AndList(names))
		}
	}
	return cmp.Or(rule.Removed(key), unknown(key, names))
}

// ruleBuilder turns entries into rules of package rule, and collects the problems.
type ruleBuilder struct {
	Problems
	config *Config
}

// parseText parses a rule that is written as text into the options of the equal mapping. The text
// has the channels first, then ,key=value; in a push the host follows after a blank, in a mux the inputs.
func (b *ruleBuilder) parseText(list string, r ruleEntry) ruleEntry {
	if r.mapping {
		return r
	}
	address, settings := rule.Split(r.text)
	put := func(key string, texts ...string) {
		o := ruleOption{key: key, at: r.at.at(key)}
		for _, text := range texts {
			o.values = append(o.values, value{text, o.at})
		}
		r.options = append(r.options, o)
	}
	addressKey := "match"
	switch list {
	case "channels":
		addressKey = "name"
	case "record.when":
		addressKey = "channel"
	}
	if list == "mux" {
		output, inputs, _ := strings.Cut(strings.TrimSpace(r.text), " ")
		put("inputs", strings.Fields(inputs)...)
		addressKey = "output"
		address, settings = rule.Split(output)
	}
	if list == "push" {
		channel, target, _ := strings.Cut(strings.TrimSpace(address), " ")
		host, as, named := rule.CutTarget(strings.TrimSpace(target))
		if host == "" {
			b.add(r.at, "%q: want \"CHANNEL HOST[/NAME]\", as in \"goal krang\"", r.text)
			r.broken = true
			return r
		}
		put("hosts", host)
		if named {
			put("as", as)
		}
		address = channel
	}
	put(addressKey, address)
	for _, option := range settings {
		at := r.at.at(option.Key)
		_, twice := r.option(option.Key)
		switch err := option.Check(); {
		case err != nil:
			b.addError(r.at, err)
		case twice:
			b.add(at, "is given twice")
		case !slices.ContainsFunc(ruleKeysOf(list), func(k ruleKey) bool { return k.name == option.Key }):
			b.add(at, "%s", unknownIn(list, option.Key))
		case slices.Contains([]string{"hosts", "operators", "force"}, option.Key):
			put(option.Key, strings.Fields(option.Value)...)
		default:
			put(option.Key, option.Value)
		}
	}
	return r
}

// channels returns the values of match or deny. After an error, it records a problem and returns nil.
func (b *ruleBuilder) channels(r ruleEntry) (values []value, deny bool) {
	match, matches := r.option("match")
	forbid, denies := r.option("deny")
	switch {
	case r.broken:
	case matches && denies:
		b.add(forbid.at, "cannot be combined with match: a rule either allows or denies; make two rules")
	case !matches && !denies:
		b.add(r.at, "names no channel; want match: PATTERN, or deny: PATTERN")
	case denies:
		for _, o := range r.options {
			if o.key != "deny" && o.key != "hosts" {
				b.add(o.at, "does nothing in a rule that denies; leave it out")
			}
		}
		return b.some(forbid), true
	}
	return b.some(match), false
}

// some returns the values of an option. It records a problem when there are none.
func (b *ruleBuilder) some(o ruleOption) []value {
	if o.at.Path != "" && o.values != nil && len(o.values) == 0 {
		b.add(o.at, "is an empty list; name something, or leave the line out")
	}
	return o.values
}

// grants makes the rules of export or accept.
func (b *ruleBuilder) grants(rules []ruleEntry) rule.Grants {
	grants := rule.Grants{}
	for _, r := range rules {
		channels, deny := b.channels(r)
		g := rule.Grant{Deny: deny, From: r.at.Path}
		for _, v := range channels {
			b.addError(v.at, rule.CheckPattern("channel", v.text))
			g.Channels = append(g.Channels, v.text)
		}
		g.Hosts = b.hosts(r, "hosts")
		g.Operator = b.operator(r)
		var m rule.Mirror
		if b.setOptions(r, &m) {
			g.QoS, g.FileMode = m.QoS, m.FileMode
			for _, o := range r.options {
				g.Says = append(g.Says, o.key)
			}
			for _, s := range rule.PresetSettings(r.preset()) {
				g.Says = append(g.Says, s.Key)
			}
			b.addError(r.at, g.QoS.Check())
		}
		grants = append(grants, g)
	}
	return grants
}

// hosts returns the patterns of hosts of an option, nil if the rule does not have it.
func (b *ruleBuilder) hosts(r ruleEntry, key string) []string {
	o, ok := r.option(key)
	if !ok {
		return nil
	}
	patterns := []string{}
	for _, v := range b.some(o) {
		b.addError(v.at, rule.CheckPattern("host", v.text))
		patterns = append(patterns, v.text)
	}
	return patterns
}

// operator returns the options of the operator lock, nil if the rule does not have the lock.
func (b *ruleBuilder) operator(r ruleEntry) *rule.Operator {
	on := false
	if o, ok := r.option("operator"); ok && len(o.values) > 0 {
		v := o.values[0]
		on = v.text == "true"
		if !on && v.text != "false" {
			b.add(v.at, "%q: want false or true", v.text)
		}
	}
	lock := &rule.Operator{Hosts: b.hosts(r, "operators"), Force: b.hosts(r, "force")}
	if o, ok := r.option("grace"); ok && len(o.values) > 0 {
		grace, err := rule.ParseGrace(o.values[0].text)
		b.addError(o.values[0].at, err)
		lock.Grace = grace
	}
	if on {
		return lock
	}
	for _, key := range []string{"operators", "force", "grace"} {
		if o, ok := r.option(key); ok {
			b.add(o.at, "does nothing without operator: true; add that, or leave it out")
		}
	}
	return nil
}

// MirrorRules makes the rules of mirror or merge, one for each HOST/PATTERN. base has the values of fields that an entry does not set.
func (b *ruleBuilder) MirrorRules(rules []ruleEntry, base rule.Mirror) (mirrors []rule.Mirror) {
	for _, r := range rules {
		channels, deny := b.channels(r)
		how := base
		how.Deny, how.From = deny, r.at.Path
		good := b.setOptions(r, &how)
		for _, v := range channels {
			of, err := rule.ParseChannels(v.text)
			if err != nil {
				b.addError(v.at, err)
				continue
			}
			how.Host, how.Channel = of.Host, of.Channel
			if good {
				b.addError(r.at, how.Check())
			}
			mirrors = append(mirrors, how)
		}
	}
	return mirrors
}

// PushRules makes the rules of push, one for each channel and host.
func (b *ruleBuilder) PushRules(rules []ruleEntry) (pushes []rule.Push) {
	for _, r := range rules {
		channels, deny := b.channels(r)
		hosts, named := r.option("hosts")
		targets := b.some(hosts)
		switch {
		case deny && !named:
			targets = []value{{"*", r.at}}
		case !named && channels != nil:
			b.add(r.at, "names no host; want hosts: HOST")
		}
		var how rule.Mirror
		good := b.setOptions(r, &how)
		for _, channel := range channels {
			for _, host := range targets {
				p := rule.Push{Channel: channel.text, Host: host.text, As: how.As, QoS: how.QoS, Over: how.Over, Deny: deny, From: r.at.Path}
				if good {
					b.addError(r.at, p.Check())
				}
				pushes = append(pushes, p)
			}
		}
	}
	return pushes
}

// muxRules makes the rules of mux. It leaves out those that cannot be read.
func (b *ruleBuilder) muxRules(rules []ruleEntry) (muxes rule.Muxes) {
	for _, r := range rules {
		m, before := rule.Mux{From: r.at.Path}, len(b.Problems)
		for _, o := range r.options {
			switch {
			case o.key == "inputs":
				for _, v := range b.some(o) {
					in, err := rule.ParseMuxInput(v.text)
					b.addError(v.at, err)
					m.Inputs = append(m.Inputs, in)
				}
			case len(o.values) == 0:
			case o.key == "output":
				m.Output = o.values[0].text
			default:
				if err := m.Set(o.key, o.values[0].text, b.config.reader(o.values[0].at)); err != nil {
					b.addError(o.values[0].at, rule.WithoutKey(err))
				}
			}
		}
		if len(b.Problems) == before {
			muxes = append(muxes, m)
		}
	}
	return muxes
}

// setOptions sets the options of m, those of the preset first. It records a problem for each option that is not valid, and then
// returns false.
func (b *ruleBuilder) setOptions(r ruleEntry, m *rule.Mirror) bool {
	before := len(b.Problems)
	set := func(o ruleOption) {
		if err := m.Set(o.key, o.values[0].text, b.config.reader(o.values[0].at)); err != nil {
			b.addError(o.values[0].at, rule.WithoutKey(err))
		}
	}
	if o, ok := r.option(rule.PresetKey); ok && len(o.values) > 0 {
		set(o)
	}
	for _, o := range r.options {
		if slices.Contains([]string{"match", "deny", "hosts", "operator", "operators", "force", "grace", rule.PresetKey}, o.key) || len(o.values) == 0 {
			continue
		}
		set(o)
		if rule.IsRepeated(r.preset(), o.key, o.values[0].text) {
			b.config.warn(o.at, "repeats preset "+r.preset()+": leave it out")
		}
	}
	return len(b.Problems) == before
}

// addError records each line of err as a problem. A nil err records nothing.
func (b *ruleBuilder) addError(at origin, err error) {
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		b.add(at, "%s", strings.TrimRight(line, "\n"))
	}
}
