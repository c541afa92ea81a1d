package layouts

import (
	"slices"

	"achbridge/bridge/layout"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/wire"
)

// Rule names the layout of the channels whose name matches a pattern.
type Rule struct {
	Channels string // a pattern, as in path.Match, of this host's channels, of mirrors, or as HOST/CHANNEL
	Encoded  []byte // as returned by layout.Pack; nil means unknown

	hash   wire.Hash   // zero if Packed is nil
	fit    *layout.Fit // nil if Packed is nil
	stamps stamps.Rule // fields that look like time stamps
}

// Rules are tried in order; the first one that matches applies.
type Rules []Rule

// Prepared returns a copy of the rules for ForLocal and ForMirror. It drops layouts that cannot be unpacked.
func (r Rules) Prepared() Rules {
	r = slices.Clone(r)
	for i := range r {
		l, err := layout.DecodeLayout(r[i].Encoded)
		if err != nil {
			r[i].Encoded = nil
			continue
		}
		fit := l.Fit()
		r[i].hash, r[i].fit, r[i].stamps = layout.Hash(r[i].Encoded), &fit, stamps.Guess(l)
	}
	return r
}

// ForLocal returns the first rule that matches a channel of this host, or nil.
func (r Rules) ForLocal(channel string) *Rule {
	return r.first(func(pattern string) bool { return rule.Match(pattern, channel) })
}

// ForMirror returns the first rule that matches a mirror, or nil. of is the mirror's HOST/CHANNEL.
func (r Rules) ForMirror(of, name string) *Rule {
	return r.first(func(pattern string) bool { return rule.MatchType(pattern, of, name) })
}

func (r Rules) first(matches func(pattern string) bool) *Rule {
	i := slices.IndexFunc(r, func(one Rule) bool { return matches(one.Channels) })
	if i < 0 {
		return nil
	}
	return &r[i]
}

// Hash returns the hash of the layout, zero if it is unknown. r may be nil.
func (r *Rule) Hash() wire.Hash {
	if r == nil {
		return wire.Hash{}
	}
	return r.hash
}

// Fit returns which frames fit the layout, nil if it is unknown. r may be nil.
func (r *Rule) Fit() *layout.Fit {
	if r == nil {
		return nil
	}
	return r.fit
}

// Stamps returns the rule for fields of the layout that look like time stamps, "" if there are none. r may be nil.
func (r *Rule) Stamps() stamps.Rule {
	if r == nil {
		return ""
	}
	return r.stamps
}
