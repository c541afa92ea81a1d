package rule

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"achbridge/bridge/via"
)

// Mirror is the wish to have channels of other hosts here.
type Mirror struct {
	Host    string `json:"host"`    // pattern; or achd://HOST, see IsAchd
	Channel string `json:"channel"` // pattern
	// As is the mirror's name, in which {host} and {channel} stand for those of
	// the origin; empty: HOST.CHANNEL.
	As       string   `json:"as,omitempty"`
	QoS      QoS      `json:"qos"`
	FileMode FileMode `json:"-"` // of the mirror's file, when it is made
	// Over is the only transport of the links with the hosts that the wish is for;
	// Any means either. One link carries all channels of a host.
	Over via.Kind `json:"transport,omitempty"`
	Deny bool     `json:"-"` // a rule that there is to be no mirror, whatever other rules say
	From string   `json:"-"` // where the wish is written, for people
}

// ParseMirror reads HOST/CHANNEL or HOST/PATTERN, with options behind it:
// as=NAME if the mirror is to have another name, file_mode=0660, and those of
// QoS, as in "krang/*,budget=20ms,priority=7". read is for on_stale=put:FILE.
func ParseMirror(s string, read ReadFile) (Mirror, error) {
	address, settings := Split(s)
	of, err := ParseChannels(address)
	if err != nil {
		return Mirror{}, fmt.Errorf("mirror %w", err)
	}
	m := Mirror{Host: of.Host, Channel: of.Channel}
	for _, option := range settings {
		err = errors.Join(err, cmp.Or(option.Check(), m.Set(option.Key, option.Value, read)))
	}
	if err = cmp.Or(err, m.Check()); err != nil {
		return Mirror{}, fmt.Errorf("mirror %q: %w", s, err)
	}
	return m, nil
}

// Set sets one option: as, file_mode, or one of QoS (see there for read).
func (m *Mirror) Set(key, value string, read ReadFile) (err error) {
	switch {
	case key == "file_mode":
		if m.FileMode, err = parseFileMode(value); err != nil {
			return &optionError{key, err}
		}
		return nil
	case key == "transport":
		if m.Over, err = via.Parse(value); err != nil {
			return &optionError{key, err}
		}
		return nil
	case key != "as":
		return m.QoS.Set(key, value, read)
	case value == "":
		return errors.New("as: want the mirror's name behind it, as in as=imu")
	}
	m.As = value
	return nil
}

// Check refuses what no mirror can be.
func (m Mirror) Check() error {
	if err := errors.Join(CheckPattern("host", m.Host), CheckPattern("channel", m.Channel), m.QoS.Check(), m.QoS.OnStale.check()); err != nil {
		return err
	}
	if m.Over != via.Any && m.Over != via.QUIC && m.Over != via.SCTP {
		return fmt.Errorf("transport %q: want quic or sctp", m.Over)
	}
	if err := m.checkAchd(); err != nil {
		return err
	}
	if m.QoS.Meta && !IsPattern(m.Host+m.Channel) && !m.Deny {
		if err := CheckMetaName(m.Name(m.Host, m.Channel)); err != nil {
			return err
		}
	}
	if m.As == "" {
		return nil
	}
	if IsPattern(m.Host) && !strings.Contains(m.As, "{host}") || IsPattern(m.Channel) && !strings.Contains(m.As, "{channel}") {
		return fmt.Errorf("as %q: one name cannot serve a pattern; name one channel of one host, or put {host} and {channel} into it", m.As)
	}
	return checkTemplate(m.As)
}

// Name is what the mirror of channel of host is called here.
func (m Mirror) Name(host, channel string) string {
	return Expand(cmp.Or(m.As, "{host}.{channel}"), host, channel)
}

// Same reports whether two wishes are for the same mirrors; they may differ in QoS.
func (m Mirror) Same(o Mirror) bool {
	return m.Host == o.Host && m.Channel == o.Channel && m.As == o.As
}

// Covers reports whether the wish is for a channel of a host.
func (m Mirror) Covers(host, channel string) bool {
	return Address{m.Host, m.Channel}.Matches(host, channel)
}

// Mirrors are rules in their order: those that deny are looked at first, then
// the first that matches counts.
type Mirrors []Mirror

// Denial returns the rule that says that a channel of a host is not mirrored.
func (ms Mirrors) Denial(host, channel string) (Mirror, bool) {
	for _, m := range ms {
		if m.Deny && Match(m.Channel, channel) && denies(m.Host, host) {
			return m, true
		}
	}
	return Mirror{}, false
}

// For returns the rule by which a channel of a host is mirrored, if there is one
// and none denies it.
func (ms Mirrors) For(host, channel string) (Mirror, bool) {
	if _, no := ms.Denial(host, channel); no {
		return Mirror{}, false
	}
	for _, m := range ms {
		if !m.Deny && m.Covers(host, channel) {
			return m, true
		}
	}
	return Mirror{}, false
}
