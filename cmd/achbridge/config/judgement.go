package config

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/ui"
)

// Judgement is what the configuration says of one channel in one respect.
type Judgement struct {
	Verb    string        `json:"verb"`    // export, push, accept or mirror
	Channel string        `json:"channel"` // HOST/CHANNEL
	Applies bool          `json:"applies"`
	Result  string        `json:"result"`         // for people
	Rule    string        `json:"rule,omitempty"` // as in mirror[0]; empty: the default
	From    string        `json:"from"`           // FILE:LINE, a flag, default
	Options []optionValue `json:"options,omitempty"`
}

// optionValue is the value of one option of a rule.
type optionValue struct {
	Option string `json:"option"`
	Value  string `json:"value"`
	From   string `json:"from"`
}

// ByMirrorVerb is where a wish comes from that achbridge mirror made.
const ByMirrorVerb = "achbridge mirror"

// wishFunc returns the wish because of which a channel of a host is mirrored.
type wishFunc func(host, channel string) (rule.Mirror, bool)

// Judgements are what c says of a channel, in every respect that concerns this
// host. wish asks a running daemon, which knows of more wishes than its
// configuration; nil: none is asked.
func (c *Config) Judgements(host, channel string, wish wishFunc) []Judgement {
	if host != c.Name {
		return []Judgement{c.MirrorJudgement(host, channel, wish)}
	}
	list := []Judgement{c.exportJudgement(channel)}
	list = append(list, c.pushJudgements(channel)...)
	return append(list, c.acceptJudgement(channel))
}

// ruled is a verdict that the rule of a path has given; the default's when there
// is none.
func (c *Config) ruled(verb, address, path string) Judgement {
	v := Judgement{Verb: verb, Channel: address, Rule: path, From: "default"}
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

// grantJudgement says in Result who may do what, or why nobody.
func (c *Config) grantJudgement(verb, what, channel string, grants rule.Grants) Judgement {
	denials, g, ok := grants.About(channel)
	var shut []string
	for _, d := range denials {
		if d.Hosts == nil {
			v := c.ruled(verb, c.Name+"/"+channel, d.From)
			v.Result = "nobody " + what + ": " + d.From + " denies it"
			return v
		}
		shut = append(shut, d.Hosts...)
	}
	v := c.ruled(verb, c.Name+"/"+channel, g.From)
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
	if verb == "export" { // what is not set is not limited
		v.Options = thoseSet(v.Options)
	} else {
		leaveToPush(v.Options, g.QoS)
	}
	return v
}

// thoseSet are the options that are not left to their defaults.
func thoseSet(list []optionValue) []optionValue {
	return slices.DeleteFunc(list, func(o optionValue) bool { return o.From == "default" })
}

// leaveToPush says of the options that a push may ask for, and that its rule leaves
// open, that they are the push's.
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

func (c *Config) MirrorJudgement(host, channel string, wish wishFunc) Judgement {
	if wish == nil {
		wish = c.MirrorRules.For
	}
	address := host + "/" + channel
	if entry, ok := c.MirrorRules.Denial(host, channel); ok {
		v := c.ruled("mirror", address, entry.From)
		v.Result = "not mirrored: " + entry.From + " denies it"
		return v
	}
	m, ok := wish(host, channel)
	if !ok {
		v := c.ruled("mirror", address, "")
		v.Result = "not mirrored: no rule names it"
		return v
	}
	v := c.ruled("mirror", address, m.From)
	v.Applies, v.Result = true, "mirrored here as "+m.Name(host, channel)
	v.Options = c.options(m.From, m)
	return v
}

// ClosedBy says of a mirror that is wanted that its origin has none for us.
func (v Judgement) ClosedBy(host string) Judgement {
	if v.Verb == "mirror" && v.Applies {
		v.Applies, v.Result = false, "not for this host, as "+host+" says; else "+v.Result
	}
	return v
}

func (c *Config) pushJudgements(channel string) (list []Judgement) {
	var done []string
	for _, p := range c.PushRules {
		if p.Deny || !matchesAny([]string{p.Channel}, channel) || slices.Contains(done, p.Host) {
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

// options are those of a mirror with their origins; rule is the path of the rule
// that may set them.
func (c *Config) options(entry string, m rule.Mirror) (list []optionValue) {
	r := c.rules[entry]
	put := func(key, text, unset string) {
		from := "default"
		if o, ok := r.option(key); ok {
			from = o.at.String()
		} else if entry == ByMirrorVerb && text != unset {
			from = ByMirrorVerb
		}
		list = append(list, optionValue{key, text, from})
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

// Unreached are the rules that no channel comes to, since an earlier one takes
// all.
func (c *Config) Unreached() (list []string) {
	type named struct{ host, channel, from string }
	look := func(rules []named) {
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
		look(rules)
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
	look(mirrors)
	look(pushes)
	return list
}

// ruleText names a rule and where it is written.
func (c *Config) ruleText(path string) string {
	return c.rules[path].at.String() + ": " + path
}

// covers reports whether all that pattern p matches is matched by q too, as far
// as that is plain.
func covers(q, p string) bool {
	return q == "*" || q == p || !strings.ContainsAny(p, `*?[\`) && matchesAny([]string{q}, p)
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}

// OptionsText says what a verdict's options are, those that are as usual left out.
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
