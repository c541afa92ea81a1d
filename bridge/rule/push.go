package rule

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"achbridge/bridge/via"
	"achbridge/localach"
)

// Push is the wish that another host mirrors a channel of ours.
type Push struct {
	Channel string `json:"channel"` // a pattern in the configuration
	Host    string `json:"host"`
	As      string `json:"as,omitempty"` // name over there, in which {channel} stands for ours; empty: the same
	// QoS is what the peer is asked to ask for, as far as its rule leaves it open. More
	// than its MaxRate and Priority the peer does not get.
	QoS  QoS      `json:"qos"`
	Over via.Kind `json:"-"` // as in Mirror; of a rule
	Deny bool     `json:"-"` // a rule that there is to be no push; Host is then a pattern
	From string   `json:"-"` // where the wish is written, for people
}

// ParsePush reads CHANNEL and HOST or HOST/NAME.
func ParsePush(channel, target string) (Push, error) {
	host, as, _ := CutTarget(target)
	p := Push{Channel: channel, Host: host, As: as}
	if err := p.CheckOne(); err != nil {
		return Push{}, fmt.Errorf("push %s %s: %w", channel, target, err)
	}
	return p, nil
}

func (p Push) CheckOne() error {
	if p.Host == "" || IsPattern(p.Host) {
		return fmt.Errorf("host %q: want the name of one host", p.Host)
	}
	if IsAchd(p.Host) {
		return p.checkAchd()
	}
	return errors.Join(localach.CheckName(p.Channel), localach.CheckName(p.NameThere()), p.checkQoS())
}

func (p Push) checkQoS() error {
	if p.QoS.Deadline != 0 || p.QoS.OnStale != (OnStale{}) || p.QoS.Meta {
		return fmt.Errorf("deadline, on_stale and meta are for the host that has the mirror: set them in the rule by which %s accepts it", p.Host)
	}
	return p.QoS.Check()
}

// Check checks a push of the configuration, which may be for a pattern.
func (p Push) Check() error {
	if p.Deny {
		return errors.Join(CheckPattern("channel", p.Channel), CheckPattern("host", p.Host))
	}
	if !IsPattern(p.Channel) {
		return p.CheckOne()
	}
	if p.As != "" && !strings.Contains(p.As, "{channel}") {
		return fmt.Errorf("as %q: one name cannot serve a pattern; put {channel} into it", p.As)
	}
	return errors.Join(CheckPattern("channel", p.Channel), Push{Channel: "c", Host: p.Host, As: p.As, QoS: p.QoS}.CheckOne())
}

// NameThere is what the channel is called over there.
func (p Push) NameThere() string { return p.Name(p.Channel) }

// Name is what a channel that p is for is called over there.
func (p Push) Name(channel string) string { return Expand(cmp.Or(p.As, "{channel}"), "", channel) }

// Same reports whether two wishes are for the same push.
func (p Push) Same(o Push) bool {
	return p.Channel == o.Channel && p.Host == o.Host && p.NameThere() == o.NameThere()
}

// Pushes are rules in their order: those that deny are looked at first, then the
// first that matches counts.
type Pushes []Push

// Denial returns the rule that says that a channel is not pushed to a host.
func (ps Pushes) Denial(channel, host string) (Push, bool) {
	for _, r := range ps {
		if r.Deny && Match(r.Channel, channel) && denies(r.Host, host) {
			return r, true
		}
	}
	return Push{}, false
}

// For returns the rule by which a channel is pushed to a host, if there is one and
// none denies it.
func (ps Pushes) For(channel, host string) (Push, bool) {
	if _, no := ps.Denial(channel, host); no {
		return Push{}, false
	}
	for _, r := range ps {
		if !r.Deny && r.Host == host && Match(r.Channel, channel) {
			return r, true
		}
	}
	return Push{}, false
}
