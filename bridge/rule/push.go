package rule

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"achbridge/bridge/via"
	"achbridge/localach"
)

// Push is a request or rule that another host mirrors a local channel.
type Push struct {
	Channel string `json:"channel"` // may be a pattern in the configuration
	Host    string `json:"host"`
	As      string `json:"as,omitempty"` // name at the peer, in which {channel} stands for the local name; empty means the same name
	// QoS is the requested QoS, for the options that the peer's rule does not set. Its MaxRate and Priority are
	// also upper limits for the peer.
	QoS  QoS      `json:"qos"`
	Over via.Kind `json:"-"` // as in Mirror; only in rules
	Deny bool     `json:"-"` // the rule forbids the push; Host is a pattern then
	From string   `json:"-"` // where the request is written, for messages
}

// ParsePush parses CHANNEL and HOST or HOST/NAME.
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
		return fmt.Errorf("deadline, on_stale and meta belong to the host with the mirror: set them in the accept rule of %s", p.Host)
	}
	return p.QoS.Check()
}

// Check returns an error if a push of the configuration is invalid. Unlike in CheckOne, Channel may be a
// pattern.
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

// NameThere returns the channel's name at the peer.
func (p Push) NameThere() string { return p.Name(p.Channel) }

// Name returns the name at the peer of a channel that matches p.
func (p Push) Name(channel string) string { return Expand(cmp.Or(p.As, "{channel}"), "", channel) }

// Same reports whether two requests are for the same push.
func (p Push) Same(o Push) bool {
	return p.Channel == o.Channel && p.Host == o.Host && p.NameThere() == o.NameThere()
}

// Pushes is a list of rules. Denying rules take precedence; otherwise the first match applies.
type Pushes []Push

// Denial returns the rule that forbids pushing channel to host, if there is one.
func (ps Pushes) Denial(channel, host string) (Push, bool) {
	for _, r := range ps {
		if r.Deny && Match(r.Channel, channel) && denies(r.Host, host) {
			return r, true
		}
	}
	return Push{}, false
}

// For returns the rule that requests a push of channel to host. ok is false if there is none, or another rule
// denies the push.
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
