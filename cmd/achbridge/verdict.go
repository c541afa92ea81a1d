package main

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"achbridge/bridge"
)

// verdict is what the configuration says of one channel in one respect.
type verdict struct {
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

// asked is where a wish comes from that achbridge mirror made.
const asked = "achbridge mirror"

// wishFunc returns the wish because of which a channel of a host is mirrored.
type wishFunc func(host, channel string) (bridge.Mirror, bool)

// verdicts are what c says of a channel, in every respect that concerns this
// host. wish asks a running daemon, which knows of more wishes than its
// configuration; nil: none is asked.
func (c *config) verdicts(host, channel string, wish wishFunc) []verdict {
	if host != c.Name {
		return []verdict{c.mirrorVerdict(host, channel, wish)}
	}
	list := []verdict{c.exportVerdict(channel)}
	list = append(list, c.pushVerdicts(channel)...)
	return append(list, c.acceptVerdict(channel))
}

// ruled is a verdict that the rule of a path has given; the default's when there
// is none.
func (c *config) ruled(verb, address, path string) verdict {
	v := verdict{Verb: verb, Channel: address, Rule: path, From: "default"}
	if r, ok := c.rules[path]; ok {
		v.From = r.at.String()
	} else if path != "" {
		v.Rule, v.From = "", path
	}
	return v
}

func (c *config) exportVerdict(channel string) verdict {
	grants := c.export
	if grants == nil {
		grants = bridge.GrantTo("*")
	}
	return c.grantVerdict("export", "may read it", channel, grants)
}

func (c *config) acceptVerdict(channel string) verdict {
	return c.grantVerdict("accept", "may push into it", channel, c.accept)
}

// grantVerdict says in Result who may do what, or why nobody.
func (c *config) grantVerdict(verb, what, channel string, grants bridge.Grants) verdict {
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
		v.Result = andList(g.Hosts)
	}
	if shut != nil {
		v.Result += ", but not " + andList(shut) + ","
	}
	v.Result += " " + what
	v.Options = c.options(g.From, bridge.Mirror{QoS: g.QoS, FileMode: g.FileMode})
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
func leaveToPush(list []optionValue, rule bridge.QoS) {
	for _, o := range pushOptions() {
		i := slices.IndexFunc(list, func(v optionValue) bool { return v.Option == o.Key })
		switch {
		case list[i].From != "default":
		case o.Key == "budget" && rule.Class == bridge.Command:
			list[i].Value = "as pushed, at most " + list[i].Value
		default:
			list[i].Value = "as pushed"
		}
	}
}

func (c *config) mirrorVerdict(host, channel string, wish wishFunc) verdict {
	if wish == nil {
		wish = c.mirrors.For
	}
	address := host + "/" + channel
	if rule, ok := c.mirrors.Denial(host, channel); ok {
		v := c.ruled("mirror", address, rule.From)
		v.Result = "not mirrored: " + rule.From + " denies it"
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

// unlessClosed says of a mirror that is wanted that its origin has none for us.
func (v verdict) unlessClosed(r bridge.RemoteChannel) verdict {
	if r.Closed && v.Verb == "mirror" && v.Applies {
		v.Applies, v.Result = false, "not for this host, as "+r.Host+" says; else "+v.Result
	}
	return v
}

func (c *config) pushVerdicts(channel string) (list []verdict) {
	var done []string
	for _, p := range c.pushes {
		if p.Deny || !matchesAny([]string{p.Channel}, channel) || slices.Contains(done, p.Host) {
			continue
		}
		done = append(done, p.Host)
		v := c.ruled("push", c.Name+"/"+channel, p.From)
		v.Applies, v.Result = true, "pushed to "+p.Host+" as "+p.Name(channel)
		v.Options = thoseSet(c.options(p.From, bridge.Mirror{QoS: p.QoS}))
		if d, no := c.pushes.Denial(channel, p.Host); no {
			v = c.ruled("push", v.Channel, d.From)
			v.Result = "not pushed to " + p.Host + ": " + d.From + " denies it"
		}
		list = append(list, v)
	}
	return list
}

// options are those of a mirror with their origins; rule is the path of the rule
// that may set them.
func (c *config) options(rule string, m bridge.Mirror) (list []optionValue) {
	r := c.rules[rule]
	put := func(key, text, unset string) {
		from := "default"
		if o, ok := r.option(key); ok {
			from = o.at.String()
		} else if rule == asked && text != unset {
			from = asked
		}
		list = append(list, optionValue{key, text, from})
	}
	for _, o := range bridge.Options() {
		put(o.Key, o.Text(m.QoS), o.Text(bridge.QoS{}))
	}
	if o, ok := r.option("transport"); ok {
		put(o.key, o.values[0].text, "")
	}
	put("file_mode", m.FileMode.String(), bridge.FileMode(0).String())
	return list
}

// unreached are the rules that no channel comes to, since an earlier one takes
// all.
func (c *config) unreached() (list []string) {
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
	for _, grants := range []bridge.Grants{c.export, c.accept} {
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
	for _, m := range c.mirrors {
		if !m.Deny {
			mirrors = append(mirrors, named{m.Host, m.Channel, m.From})
		}
	}
	for _, p := range c.pushes {
		if !p.Deny {
			pushes = append(pushes, named{p.Host, p.Channel, p.From})
		}
	}
	look(mirrors)
	look(pushes)
	return list
}

// ruleText names a rule and where it is written.
func (c *config) ruleText(path string) string {
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

// setText says what a verdict's options are, those that are as usual left out.
func (v verdict) setText() string {
	var list []string
	for _, o := range v.Options {
		if o.From != "default" {
			list = append(list, o.Option+" "+o.Value)
		}
	}
	return strings.Join(list, ", ")
}

func sortVerdicts(list []verdict) {
	slices.SortStableFunc(list, func(a, b verdict) int { return cmp.Compare(a.Channel, b.Channel) })
}
