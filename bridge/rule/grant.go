package rule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Grant is a rule that determines which peers may read channels of this host (export) or write them (accept).
// Denying rules take precedence. Otherwise the first rule whose Channels match decides, whatever later rules
// contain: only the peers that its Hosts match are allowed.
type Grant struct {
	Channels []string // patterns
	Hosts    []string // patterns of peer names; nil means every member
	Deny     bool     // the rule denies access

	// QoS has two uses. In an accept rule it is the QoS of the mirror for a push; the push determines the
	// options that neither QoS nor Says sets. In an export rule, MaxRate and Priority are upper limits for a
	// peer, and the other options have no effect.
	QoS      QoS
	Says     []string  // keys of options that QoS sets explicitly, even to their default
	FileMode FileMode  // accept rules: permissions of the mirror's file
	From     string    // where the rule is written, for messages
	Operator *Operator // accept rules: only the holder of the operator lock may push; nil without the lock
}

// Operator has the options of the operator lock.
type Operator struct {
	Hosts []string      // patterns of the hosts that may take the lock; nil means those that may push
	Force []string      // patterns of the hosts that may take it from another; nil means none
	Grace time.Duration // how long a silent holder keeps the lock; 0 means DefaultGrace
}

// DefaultGrace is the default of Operator.Grace.
const DefaultGrace = time.Second

// EffectiveGrace returns how long a silent holder keeps the lock.
func (o *Operator) EffectiveGrace() time.Duration { return cmp.Or(o.Grace, DefaultGrace) }

// MayTake returns an error if a host that may push into the channel may not take its lock. The error may be sent to the
// host.
func (g Grant) MayTake(host string, force bool) error {
	switch {
	case g.Operator.Hosts != nil && !Matches(g.Operator.Hosts, host) && !Matches(g.Operator.Force, host):
		return fmt.Errorf("operators of %s does not name the host %s", cmp.Or(g.From, "the rule for it"), host)
	case force && !Matches(g.Operator.Force, host):
		return fmt.Errorf("force of %s does not name the host %s", cmp.Or(g.From, "the rule for it"), host)
	}
	return nil
}

// check returns an error if the options are invalid.
func (o *Operator) check() error {
	if o == nil {
		return nil
	}
	var errs []error
	for _, p := range o.Hosts {
		errs = append(errs, CheckPattern("operators", p))
	}
	for _, p := range o.Force {
		errs = append(errs, CheckPattern("force", p))
	}
	if o.Grace != 0 && (o.Grace < minGrace || o.Grace > maxGrace) {
		errs = append(errs, fmt.Errorf("grace %v: %w", o.Grace, errGrace))
	}
	return errors.Join(errs...)
}

// ParseGrace parses the option grace.
func ParseGrace(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < minGrace || d > maxGrace {
		return 0, fmt.Errorf("%q: %w", s, errGrace)
	}
	return d, nil
}

var errGrace = errors.New("want 500ms to 1h: packets of a link may be 250 ms and a round trip apart")

const (
	minGrace = 500 * time.Millisecond
	maxGrace = time.Hour
)

// Grants is a list of rules in order of precedence.
type Grants []Grant

// GrantTo returns rules that allow every member to use the channels that match one of the patterns.
func GrantTo(patterns ...string) Grants {
	list := make(Grants, 0, len(patterns))
	for _, p := range patterns {
		list = append(list, Grant{Channels: []string{p}})
	}
	return list
}

// ErrNoGrant means that no rule matches the channel.
var ErrNoGrant = errors.New("no rule names it")

// About returns the rules for channel: those that deny it, and the first one that allows it. ok is false if
// there is no such rule.
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

// For returns the rule that allows host to use channel. Otherwise it returns an error whose text may be sent to
// host.
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

// Denied returns an error if a rule denies host the channel, and nil otherwise.
func (gs Grants) Denied(channel, host string) error {
	denials, _, _ := gs.About(channel)
	for _, g := range denials {
		if g.allows(host) {
			return DeniedBy(g.From)
		}
	}
	return nil
}

// DeniedBy returns the error for a rule that denies access. Its text may be sent to the peer.
func DeniedBy(from string) error { return fmt.Errorf("%s denies it", cmp.Or(from, "a rule")) }

// AnyPeer reports whether the rules may allow some peer to use channel.
func (gs Grants) AnyPeer(channel string) bool {
	denials, _, ok := gs.About(channel)
	return ok && !slices.ContainsFunc(denials, func(g Grant) bool { return g.Hosts == nil })
}

// NamesExactly reports whether an allowing rule names channel without a pattern.
func (gs Grants) NamesExactly(channel string) bool {
	return slices.ContainsFunc(gs, func(g Grant) bool { return !g.Deny && slices.Contains(g.Channels, channel) })
}

func (g Grant) allows(host string) bool { return g.Hosts == nil || Matches(g.Hosts, host) }

// Limit reduces a peer's requested QoS to the limits of an export rule.
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

// ForPush returns the QoS of the mirror for a push: the options of the rule, and the requested values of the
// others. It returns an error if they contradict each other.
func (g Grant) ForPush(requested QoS) (QoS, error) {
	q := g.QoS
	for _, o := range options {
		if o.Here || slices.Contains(g.Says, o.Key) || !o.usual(q) || o.usual(requested) {
			continue
		}
		if o.Key == "budget" && g.QoS.Class == Command && requested.EffectiveBudget() > g.QoS.EffectiveBudget() {
			continue // a peer cannot extend the budget of commands
		}
		if err := q.Set(o.Key, o.Text(requested), nil); err != nil {
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

// check returns an error if the rule is invalid.
func (g Grant) check() error {
	var errs []error
	for _, p := range g.Channels {
		errs = append(errs, CheckPattern("channel", p))
	}
	for _, p := range g.Hosts {
		errs = append(errs, CheckPattern("host", p))
	}
	return errors.Join(append(errs, g.QoS.Check(), g.QoS.OnStale.check(), g.Operator.check())...)
}
