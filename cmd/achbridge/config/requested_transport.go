package config

import (
	"strings"

	"achbridge/bridge/via"
)

// transportRequest is a rule, or an entry of peers, that sets the protocol of the link with the
// hosts that match a pattern.
type transportRequest struct {
	hosts string
	over  via.Kind
	at    origin
}

// checkTransports records a problem if two settings require different transports for one host.
// One link carries all channels of a host, so the link cannot satisfy both.
func (c *Config) checkTransports(b *ruleBuilder) {
	var requests []transportRequest
	for i, p := range c.StaticPeers {
		if p.Transport != "" {
			host, _, _ := strings.Cut(c.Peers[i], ",")
			host, _, _ = strings.Cut(host, ":") // an IP address, which matches no pattern of names
			requests = append(requests, transportRequest{host, via.Kind(p.Transport), c.placeOf("peers", i)})
		}
	}
	for _, m := range c.MirrorRules {
		requests = append(requests, transportRequest{m.Host, m.Over, c.rules[m.From].at})
	}
	for _, p := range c.PushRules {
		requests = append(requests, transportRequest{p.Host, p.Over, c.rules[p.From].at})
	}
	reported := map[string]bool{}
	for i, w := range requests {
		if o, ok := c.rules[w.at.Path].option("transport"); ok {
			w.at, requests[i].at = o.at, o.at
		}
		if w.over == via.Any || reported[w.at.Path] {
			continue
		}
		if own := c.Transport; own != via.Any && own != w.over {
			b.add(w.at, "this host uses %s only, since transport says so; write transport: auto there", own)
			reported[w.at.Path], requests[i].over = true, via.Any
			continue
		}
		for _, e := range requests[:i] {
			if e.over != via.Any && e.over != w.over && mayOverlap(e.hosts, w.hosts) && !reported[w.at.Path] {
				b.add(w.at, "%s, but %s says %s, and both may name the same host (%s); one link carries all channels of a host, so make them agree", w.over, e.at.Path, e.over, e.at)
				reported[w.at.Path] = true
			}
		}
	}
}

// mayOverlap reports whether a name may match both patterns. It returns true if that is
// unknown.
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
