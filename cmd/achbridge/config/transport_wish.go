package config

import (
	"strings"

	"achbridge/bridge/via"
)

// transportWish is a rule, or an entry of peers, that says over what the link with
// the hosts that match a pattern is to run.
type transportWish struct {
	hosts string
	over  via.Kind
	at    origin
}

// checkTransports refuses wishes of which no link can fulfil both: a link carries all
// channels of a host.
func (c *Config) checkTransports(b *ruleBuilder) {
	var wishes []transportWish
	for i, p := range c.StaticPeers {
		if p.Transport != "" {
			host, _, _ := strings.Cut(c.Peers[i], ",")
			host, _, _ = strings.Cut(host, ":") // an address, which no name overlaps with
			wishes = append(wishes, transportWish{host, via.Kind(p.Transport), c.placeOf("peers", i)})
		}
	}
	for _, m := range c.MirrorRules {
		wishes = append(wishes, transportWish{m.Host, m.Over, c.rules[m.From].at})
	}
	for _, p := range c.PushRules {
		wishes = append(wishes, transportWish{p.Host, p.Over, c.rules[p.From].at})
	}
	told := map[string]bool{}
	for i, w := range wishes {
		if o, ok := c.rules[w.at.Path].option("transport"); ok {
			w.at, wishes[i].at = o.at, o.at
		}
		if w.over == via.Any || told[w.at.Path] {
			continue
		}
		if own := via.Kind(c.Transport); own != via.Any && own != w.over {
			b.add(w.at, "this host is to run over %s alone, as transport says; write transport: auto there", own)
			told[w.at.Path], wishes[i].over = true, via.Any
			continue
		}
		for _, e := range wishes[:i] {
			if e.over != via.Any && e.over != w.over && mayOverlap(e.hosts, w.hosts) && !told[w.at.Path] {
				b.add(w.at, "%s, but %s says %s for hosts that this may name too (%s); one link carries all channels of a host, so make them agree", w.over, e.at.Path, e.over, e.at)
				told[w.at.Path] = true
			}
		}
	}
}

// mayOverlap reports whether there may be a name that both patterns match. Where that
// is not plain it says so.
func mayOverlap(a, b string) bool {
	switch {
	case len(a)+len(b) > 2*63 || strings.Count(a+b, "*") > 4:
		return true
	case a == "" || b == "":
		return strings.Trim(a+b, "*") == ""
	case a[0] == '*':
		return mayOverlap(a[1:], b) || mayOverlap(a, b[1:])
	case b[0] == '*':
		return mayOverlap(b, a)
	case strings.ContainsAny(a+b, `[\`):
		return true
	}
	return (a[0] == b[0] || a[0] == '?' || b[0] == '?') && mayOverlap(a[1:], b[1:])
}
