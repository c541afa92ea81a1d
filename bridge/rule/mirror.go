package rule

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"achbridge/bridge/via"
)

// Mirror is a request or rule to mirror channels of other hosts.
type Mirror struct {
	Host    string `json:"host"`    // pattern, or achd://HOST (see IsAchd)
	Channel string `json:"channel"` // pattern
	// As is the mirror's name, in which {host} and {channel} stand for the origin's names. Empty means
	// HOST.CHANNEL.
	As       string   `json:"as,omitempty"`
	QoS      QoS      `json:"qos"`
	FileMode FileMode `json:"-"` // permissions of a new mirror's file
	// Over is the only transport allowed for links with the request's hosts; Any allows all. One link carries
	// all channels of a host.
	Over via.Kind `json:"transport,omitempty"`
	// Merge makes the rule a merge: the frames of all matching hosts are put into one channel (Output), in order of arrival.
	Merge bool   `json:"merge,omitempty"`
	Deny  bool   `json:"-"` // the rule forbids mirrors, even if other rules or requests ask for them
	From  string `json:"-"` // where the request is written, for messages
}

// ParseMirror parses HOST/CHANNEL or HOST/PATTERN with options, as in "krang/*,budget=20ms,priority=7". The
// options are as=NAME for the mirror's name, file_mode=0660, transport, preset, and those of QoS. read reads the file of
// on_stale=put:FILE.
func ParseMirror(s string, read ReadFile) (Mirror, error) {
	address, settings := Split(s)
	of, err := ParseChannels(address)
	if err != nil {
		return Mirror{}, fmt.Errorf("mirror %w", err)
	}
	m := Mirror{Host: of.Host, Channel: of.Channel}
	for _, option := range presetFirst(settings) {
		err = errors.Join(err, cmp.Or(option.Check(), m.Set(option.Key, option.Value, read)))
	}
	if err = cmp.Or(err, m.Check()); err != nil {
		return Mirror{}, fmt.Errorf("mirror %q: %w", s, err)
	}
	return m, nil
}

// Set sets one option: as, file_mode, transport, or an option of QoS. For read, see QoS.Set.
func (m *Mirror) Set(key, value string, read ReadFile) (err error) {
	switch {
	case key == "file_mode":
		if m.FileMode, err = ParseFileMode(value); err != nil {
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

// Check returns an error if the request or rule is invalid.
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
	if m.Merge {
		return m.checkMerge()
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

// Name returns the local name of the mirror of a channel. A merge has a mirror without a file for each host, called
// OUTPUT/HOST.
func (m Mirror) Name(host, channel string) string {
	if m.Merge {
		return m.Into(host, channel) + "/" + host
	}
	return m.Into(host, channel)
}

// Into returns the name of the local channel that gets the frames of a channel: the output of a merge, otherwise the
// mirror itself.
func (m Mirror) Into(host, channel string) string {
	if m.Merge {
		return Expand(cmp.Or(m.As, "all.{channel}"), "", channel)
	}
	return Expand(cmp.Or(m.As, "{host}.{channel}"), host, channel)
}

// Same reports whether two requests are for the same mirrors. Their QoS may differ.
func (m Mirror) Same(o Mirror) bool {
	return m.Host == o.Host && m.Channel == o.Channel && m.As == o.As && m.Merge == o.Merge
}

// Covers reports whether the request matches a channel of host.
func (m Mirror) Covers(host, channel string) bool {
	return Address{m.Host, m.Channel}.Matches(host, channel)
}

// Mirrors is a list of rules. Denying rules take precedence; otherwise the first match applies.
type Mirrors []Mirror

// Denial returns the rule that forbids mirroring a channel of host, if there is one.
func (ms Mirrors) Denial(host, channel string) (Mirror, bool) {
	for _, m := range ms {
		if m.Deny && Match(m.Channel, channel) && denies(m.Host, host) {
			return m, true
		}
	}
	return Mirror{}, false
}

// For returns the rule that requests a mirror of a channel of host. ok is false if there is none, or another
// rule denies the mirror.
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
