package config

import (
	"cmp"
	"slices"
	"strings"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/ui"
)

// Judgement is the decision of the configuration for one channel and one of export, accept, mirror, push, mux and channels.
type Judgement struct {
	Kind    string        `json:"verb"`    // export, push, accept, mirror, mux or channels
	Channel string        `json:"channel"` // HOST/CHANNEL
	Applies bool          `json:"applies"`
	Result  string        `json:"result"`         // for people
	Rule    string        `json:"rule,omitempty"` // as in mirror[0]; empty means the default
	From    string        `json:"from"`           // FILE:LINE, a flag, default
	Options []optionValue `json:"options,omitempty"`
}

// optionValue is the value of one option of a rule.
type optionValue struct {
	Option string `json:"option"`
	Value  string `json:"value"`
	From   string `json:"from"`
}

// ByMirrorCommand is the From of a mirror request by the command achbridge mirror.
const ByMirrorCommand = "achbridge mirror"

// mirrorRequestFunc returns the mirror request for a channel of a host; false if there is none.
type mirrorRequestFunc func(host, channel string) (rule.Mirror, bool)

// Judgements returns the decisions of c for a channel, one for each list of rules that concerns
// this host. wish looks up the mirror requests of a running daemon, which may have more than its
// configuration. nil means only those of the configuration.
func (c *Config) Judgements(host, channel string, requestOf mirrorRequestFunc) []Judgement {
	if host != c.Name {
		return []Judgement{c.MirrorJudgement(host, channel, requestOf)}
	}
	list := []Judgement{c.exportJudgement(channel)}
	list = append(list, c.pushJudgements(channel)...)
	list = append(list, c.muxJudgements(channel)...)
	list = append(list, c.channelJudgements(channel)...)
	return append(list, c.acceptJudgement(channel))
}

// ruled returns a judgement by the rule with that path, or by the default when there is no
// such rule.
func (c *Config) ruled(kind, address, path string) Judgement {
	v := Judgement{Kind: kind, Channel: address, Rule: path, From: "default"}
	if r, ok := c.rules[path]; ok {
		v.From = r.at.String()
	} else if path != "" {
		v.Rule, v.From = "", path
	}
	return v
}

func (c *Config) exportJudgement(channel string) Judgement {
	grants := c.ExportGrants
	if grants == nil {
		grants = rule.GrantTo("*")
	}
	return c.grantJudgement("export", "may read it", channel, grants)
}

func (c *Config) acceptJudgement(channel string) Judgement {
	return c.grantJudgement("accept", "may push into it", channel, c.AcceptGrants)
}

// grantJudgement returns a judgement whose Result names the hosts that may do what, or the
// reason why none may.
func (c *Config) grantJudgement(kind, what, channel string, grants rule.Grants) Judgement {
	denials, g, ok := grants.About(channel)
	var shut []string
	for _, d := range denials {
		if d.Hosts == nil {
			v := c.ruled(kind, c.Name+"/"+channel, d.From)
			v.Result = "nobody " + what + ": " + d.From + " denies it"
			return v
		}
		shut = append(shut, d.Hosts...)
	}
	v := c.ruled(kind, c.Name+"/"+channel, g.From)
	if !ok {
		v.Result = "nobody " + what + ": no rule names it"
		return v
	}
	v.Applies, v.Result = true, "every host with the key"
	if g.Hosts != nil {
		v.Result = ui.AndList(g.Hosts)
	}
	if shut != nil {
		v.Result += ", but not " + ui.AndList(shut) + ","
	}
	v.Result += " " + what
	v.Options = c.options(g.From, rule.Mirror{QoS: g.QoS, FileMode: g.FileMode})
	if kind == "export" { // an option that is not set limits nothing
		v.Options = thoseSet(v.Options)
	} else {
		leaveToPush(v.Options, g.QoS)
		v.Options = append(v.Options, c.lockOptions(g)...)
	}
	return v
}

// lockOptions returns the options of the operator lock of an accept rule, none without the lock.
func (c *Config) lockOptions(g rule.Grant) (list []optionValue) {
	if g.Operator == nil {
		return nil
	}
	names := func(hosts []string, none string) string {
		if hosts == nil {
			return none
		}
		return ui.AndList(hosts)
	}
	for _, o := range []optionValue{
		{Option: "operator", Value: "true"}, {Option: "operators", Value: names(g.Operator.Hosts, "those that may push")},
		{Option: "force", Value: names(g.Operator.Force, "none")}, {Option: "grace", Value: g.Operator.EffectiveGrace().String()},
	} {
		o.From = "default"
		if set, ok := c.rules[g.From].option(o.Option); ok {
			o.From = set.at.String()
		}
		list = append(list, o)
	}
	return list
}

// thoseSet returns the options that do not have their default.
func thoseSet(list []optionValue) []optionValue {
	return slices.DeleteFunc(list, func(o optionValue) bool { return o.From == "default" })
}

// leaveToPush sets the text "as pushed" for the options that the rule does not set and a push
// may choose.
func leaveToPush(list []optionValue, entry rule.QoS) {
	for _, o := range rule.PushOptions() {
		i := slices.IndexFunc(list, func(v optionValue) bool { return v.Option == o.Key })
		switch {
		case list[i].From != "default":
		case o.Key == "budget" && entry.Class == rule.Command:
			list[i].Value = "as pushed, at most " + list[i].Value
		default:
			list[i].Value = "as pushed"
		}
	}
}

// MirrorJudgement returns the decision whether and how a channel of another host is mirrored
// here. See Judgements for wish.
func (c *Config) MirrorJudgement(host, channel string, requestOf mirrorRequestFunc) Judgement {
	if requestOf == nil {
		requestOf = c.MirrorRules.For
	}
	address := host + "/" + channel
	if entry, ok := c.MirrorRules.Denial(host, channel); ok {
		v := c.ruled("mirror", address, entry.From)
		v.Result = "not mirrored: " + entry.From + " denies it"
		return v
	}
	m, ok := requestOf(host, channel)
	if !ok {
		v := c.ruled("mirror", address, "")
		v.Result = "not mirrored: no rule names it"
		return v
	}
	v := c.ruled("mirror", address, m.From)
	v.Applies, v.Result = true, "mirrored here as "+m.Name(host, channel)
	if m.Merge {
		v.Result = "merged here into " + m.Output()
	}
	v.Options = c.options(m.From, m)
	return v
}

// ClosedBy changes the judgement on a wanted mirror: its origin, host, does not allow it.
func (v Judgement) ClosedBy(host string) Judgement {
	if v.Kind == "mirror" && v.Applies {
		v.Applies, v.Result = false, "not for this host, as "+host+" says; else "+v.Result
	}
	return v
}

func (c *Config) pushJudgements(channel string) (list []Judgement) {
	var done []string
	for _, p := range c.PushRules {
		if p.Deny || !rule.Match(p.Channel, channel) || slices.Contains(done, p.Host) {
			continue
		}
		done = append(done, p.Host)
		v := c.ruled("push", c.Name+"/"+channel, p.From)
		v.Applies, v.Result = true, "pushed to "+p.Host+" as "+p.Name(channel)
		v.Options = thoseSet(c.options(p.From, rule.Mirror{QoS: p.QoS}))
		if d, no := c.PushRules.Denial(channel, p.Host); no {
			v = c.ruled("push", v.Channel, d.From)
			v.Result = "not pushed to " + p.Host + ": " + d.From + " denies it"
		}
		list = append(list, v)
	}
	return list
}

// muxJudgements returns a judgement for each mux that has the channel.
func (c *Config) muxJudgements(channel string) (list []Judgement) {
	for _, m := range c.MuxRules {
		if !m.Has(channel) {
			continue
		}
		v := c.ruled("mux", c.Name+"/"+channel, m.From)
		v.Applies, v.Result = true, "gets the frames of the first live input: "+m.InputsText()
		if m.Output != channel {
			v.Result = "input of the mux that writes " + m.Output
		}
		list = append(list, v)
	}
	return list
}

// options returns the options of a mirror, each with the place where it is set. For options that a preset sets, that is the place of
// the preset. entry is the path of the rule that applies to the mirror.
func (c *Config) options(entry string, m rule.Mirror) (list []optionValue) {
	r := c.rules[entry]
	preset, _ := r.option(rule.PresetKey)
	sets := func(key string) bool {
		return slices.ContainsFunc(rule.PresetSettings(r.preset()), func(s rule.Setting) bool { return s.Key == key })
	}
	put := func(key, text, unset string) {
		from := "default"
		if o, ok := r.option(key); ok {
			from = o.at.String()
		} else if sets(key) {
			from = preset.at.String()
		} else if entry == ByMirrorCommand && text != unset {
			from = ByMirrorCommand
		}
		list = append(list, optionValue{key, text, from})
	}
	if r.preset() != "" {
		put(rule.PresetKey, r.preset(), "")
	}
	for _, o := range rule.Options() {
		put(o.Key, o.Text(m.QoS), o.Text(rule.QoS{}))
	}
	if o, ok := r.option("transport"); ok {
		put(o.key, o.values[0].text, "")
	}
	put("file_mode", m.FileMode.String(), rule.FileMode(0).String())
	return list
}

// unreached returns a sentence for each rule that never applies.
func (c *Config) unreached() (list []string) {
	type named struct{ host, channel, from string }
	find := func(rules []named) {
		for i, r := range rules {
			earlier := slices.IndexFunc(rules[:i], func(e named) bool {
				return e.from != r.from && covers(e.channel, r.channel) && covers(e.host, r.host)
			})
			if earlier >= 0 {
				list = append(list, c.ruleText(r.from)+" does nothing for "+strings.TrimPrefix(r.host+"/", "*/")+r.channel+": "+rules[earlier].from+" comes first; put it before that")
			}
		}
	}
	for _, grants := range []rule.Grants{c.ExportGrants, c.AcceptGrants} {
		var rules []named
		for _, g := range grants {
			for _, channel := range g.Channels {
				if !g.Deny {
					rules = append(rules, named{"*", channel, g.From})
				}
			}
		}
		find(rules)
	}
	var mirrors, pushes []named
	for _, m := range c.MirrorRules {
		if !m.Deny {
			mirrors = append(mirrors, named{m.Host, m.Channel, m.From})
		}
	}
	for _, p := range c.PushRules {
		if !p.Deny {
			pushes = append(pushes, named{p.Host, p.Channel, p.From})
		}
	}
	find(mirrors)
	find(pushes)
	return append(list, c.achdIdle()...)
}

// ruleText returns the position and the path of a rule.
func (c *Config) ruleText(path string) string {
	return c.rules[path].at.String() + ": " + path
}

// covers reports whether pattern q matches every name that p matches. It may return false
// although q does: it recognizes only simple cases.
func covers(q, p string) bool {
	return q == "*" && !strings.Contains(p, "/") || q == p || !strings.ContainsAny(p, `*?[\`) && rule.Match(q, p)
}

// OptionsText lists the options of a judgement that do not have their default.
func (v Judgement) OptionsText() string {
	var list []string
	for _, o := range v.Options {
		if o.From != "default" {
			list = append(list, o.Option+" "+o.Value)
		}
	}
	return strings.Join(list, ", ")
}

func SortJudgements(list []Judgement) {
	slices.SortStableFunc(list, func(a, b Judgement) int { return cmp.Compare(a.Channel, b.Channel) })
}
