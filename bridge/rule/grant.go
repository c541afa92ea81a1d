package rule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Grant is a rule about channels of this host and the peers that may read them
// (export) or write them (accept). Rules that deny are looked at first; then the
// first whose Channels match decides: the peers that its Hosts name may, the
// others may not, whatever rules come later.
type Grant struct {
	Channels []string // patterns
	Hosts    []string // patterns of the names of peers; nil: every member
	Deny     bool     // they may not

	// QoS is, for accept, that of the mirror that a push makes; what neither it nor
	// Says sets is left to the push. For export MaxRate and Priority are the most that
	// a peer gets; nothing else counts.
	QoS      QoS
	Says     []string // keys of the options that are as QoS has them even if that is their default
	FileMode FileMode // accept: of the mirror's file
	From     string   // where the rule is written, for people
}

// Grants are rules in their order.
type Grants []Grant

// GrantTo lets every member use the channels that match one of the patterns.
func GrantTo(patterns ...string) Grants {
	list := make(Grants, 0, len(patterns))
	for _, p := range patterns {
		list = append(list, Grant{Channels: []string{p}})
	}
	return list
}

// errNoGrant: no rule is about the channel.
var ErrNoGrant = errors.New("no rule names it")

// About returns the rules about channel: those that deny it, and the one that says who
// may use it, ok when there is one.
func (gs Grants) About(channel string) (denials Grants, found Grant, ok bool) {
	for _, g := range gs {
		switch {
		case !Matches(g.Channels, channel):
		case g.Deny:
			denials = append(denials, g)
		case !ok:
			found, ok = g, true
		}
	}
	return denials, found, ok
}

// For returns the rule that lets host use channel, or an error that says why
// none does, fit for the host to read.
func (gs Grants) For(channel, host string) (Grant, error) {
	if err := gs.Denied(channel, host); err != nil {
		return Grant{}, err
	}
	_, g, ok := gs.About(channel)
	switch {
	case !ok:
		return g, ErrNoGrant
	case !g.allows(host):
		return g, fmt.Errorf("%s does not name the host %s", cmp.Or(g.From, "the rule for it"), host)
	}
	return g, nil
}

// Denied says which rule denies host the channel, nil when none does.
func (gs Grants) Denied(channel, host string) error {
	denials, _, _ := gs.About(channel)
	for _, g := range denials {
		if g.allows(host) {
			return DeniedBy(g.From)
		}
	}
	return nil
}

// DeniedBy is what a rule that denies says, fit for a peer to read.
func DeniedBy(from string) error { return fmt.Errorf("%s denies it", cmp.Or(from, "a rule")) }

// AnyPeer reports whether there may be a peer that may use channel.
func (gs Grants) AnyPeer(channel string) bool {
	denials, _, ok := gs.About(channel)
	return ok && !slices.ContainsFunc(denials, func(g Grant) bool { return g.Hosts == nil })
}

// NamesExactly reports whether a rule that allows names exactly channel.
func (gs Grants) NamesExactly(channel string) bool {
	return slices.ContainsFunc(gs, func(g Grant) bool { return !g.Deny && slices.Contains(g.Channels, channel) })
}

func (g Grant) allows(host string) bool { return g.Hosts == nil || Matches(g.Hosts, host) }

// Limit lowers what a peer asks for to what an export rule grants.
func (g Grant) Limit(q QoS) (QoS, error) {
	if most := g.QoS.MaxRate; most != 0 && (q.MaxRate == 0 || q.MaxRate > most) {
		if q.Mode == Every {
			return q, fmt.Errorf("%s allows %v frames a second, so mode every is not possible", cmp.Or(g.From, "the rule for it"), most)
		}
		q.MaxRate = most
	}
	if most := g.QoS.Priority; most != 0 && q.Priority.Level() > most.Level() {
		q.Priority = most
	}
	return q, nil
}

// ForPush is the QoS of the mirror that a push makes: what the rule sets, and else what
// the push asks for. An error says how they contradict each other.
func (g Grant) ForPush(asked QoS) (QoS, error) {
	q := g.QoS
	for _, o := range options {
		if o.Here || slices.Contains(g.Says, o.Key) || !o.usual(q) || o.usual(asked) {
			continue
		}
		if o.Key == "budget" && g.QoS.Class == Command && asked.EffectiveBudget() > g.QoS.EffectiveBudget() {
			continue // what the rule calls a command gets no older because a peer says so
		}
		if err := q.Set(o.Key, o.Text(asked), nil); err != nil {
			return q, err
		}
	}
	if err := q.Check(); err != nil {
		return q, fmt.Errorf("%s and what the push asks for contradict each other: %w", cmp.Or(g.From, "the rule for it"), err)
	}
	return q, nil
}

func (gs Grants) Check(what string) error {
	var errs []error
	for i, g := range gs {
		if err := g.check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cmp.Or(g.From, fmt.Sprintf("%s[%d]", what, i)), err))
		}
	}
	return errors.Join(errs...)
}

// check refuses what no rule can be.
func (g Grant) check() error {
	var errs []error
	for _, p := range g.Channels {
		errs = append(errs, CheckPattern("channel", p))
	}
	for _, p := range g.Hosts {
		errs = append(errs, CheckPattern("host", p))
	}
	return errors.Join(append(errs, g.QoS.Check(), g.QoS.OnStale.check())...)
}
