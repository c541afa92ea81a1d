package rule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"achbridge/localach"
)

// checkMerge checks the fields of a rule with Merge.
func (m Mirror) checkMerge() error {
	switch {
	case IsPattern(m.Channel):
		return fmt.Errorf("channel %q: a merge takes one channel of several hosts, not a pattern of channels; make a rule for each channel", m.Channel)
	case IsAchd(m.Host):
		return fmt.Errorf("%s: a merge needs achbridge on each host, since achd does not number its frames", m.Host)
	case m.QoS.Mode != Every || m.QoS.Class == Command || m.QoS.Meta:
		return errors.New("a merge has mode every, class state and a metadata channel of its own: leave mode, class and meta out")
	case strings.Contains(m.As, "{host}"):
		return fmt.Errorf("as %q: a merge has one output for all hosts, so that {host} cannot be in its name", m.As)
	}
	return cmp.Or(localach.CheckName(m.Output()), CheckMetaName(m.Output()))
}

// MergeQoS returns the quality of service of the output of a merge.
func MergeQoS() QoS { return QoS{Mode: Every, Meta: true} }

// AsOutput returns the request for the output of the merge. host is this host, to which the output belongs.
func (m Mirror) AsOutput(host string) Mirror {
	return Mirror{Host: host, Channel: m.Output(), As: m.Output(), QoS: MergeQoS(), FileMode: m.FileMode, From: m.From}
}

// Output returns the output of a merge, and "" for other rules.
func (m Mirror) Output() string {
	if !m.Merge {
		return ""
	}
	return m.Into("", m.Channel)
}

// MergeInto returns the first merge whose output has the given name.
func (ms Mirrors) MergeInto(output string) (Mirror, bool) {
	i := slices.IndexFunc(ms, func(m Mirror) bool { return m.Merge && m.Output() == output })
	if i < 0 {
		return Mirror{}, false
	}
	return ms[i], true
}

// CheckMerge returns an error if rule i is a merge and another rule writes into its output too. It does not examine rules with
// patterns. accept has the rules for pushes of other hosts.
func (ms Mirrors) CheckMerge(i int, accept Grants) error {
	m := ms[i]
	if !m.Merge {
		return nil
	}
	output := m.Output()
	refuse := func(what string) error {
		return fmt.Errorf("the output %s is written by %s too; choose another name with as", output, what)
	}
	for j, other := range ms {
		exact := !other.Deny && !IsPattern(other.Host) && !IsPattern(other.Channel)
		switch {
		case other.Merge && j < i && other.Output() == output && (other.Channel != m.Channel || other.FileMode != m.FileMode):
			return fmt.Errorf("the output %s is that of %s, which has another channel or file_mode; choose another name with as", output, cmp.Or(other.From, "another merge"))
		case !other.Merge && exact && other.Into(other.Host, other.Channel) == output:
			return refuse(cmp.Or(other.From, "the mirror of "+other.Host+"/"+other.Channel))
		}
	}
	for _, g := range accept {
		if !g.Deny && slices.Contains(g.Channels, output) {
			return refuse(cmp.Or(g.From, "pushes that a rule accepts"))
		}
	}
	return nil
}
