package rule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"achbridge/bridge/stamps"
	"achbridge/localach"
)

// Mux is a rule to merge several channels of this host into one. The output gets the frames of the first input that is
// live. It is a channel of this host that only the mux writes.
type Mux struct {
	Output   string
	Inputs   []MuxInput    // the first has the highest priority
	Safe     OnStale       // put once when no input is live; zero means that nothing is put
	Hold     time.Duration // how long an expired input must be live before it wins again
	CatchUp  bool          // an input that wins puts its last live frame at once
	Meta     bool          // the output gets a metadata channel, see QoS.Meta
	FileMode FileMode      // permissions of a new output's file
	From     string        // where the rule is written, for messages
}

// MuxInput is an input of a mux. Exactly one of Expiry and Live is set: they determine how long a frame is live.
type MuxInput struct {
	Channel  string
	Expiry   stamps.Rule   // the frame has its expiry in its stamps
	Live     time.Duration // the frame is live for this time after its capture
	Operator bool          // frames are live only while a host holds the operator lock of the channel
}

// mostLive is the longest time for which a frame can be live, and for which an input can be held.
const mostLive = time.Hour

// maxMuxInputs is the largest number of inputs of a mux. The metadata channel has the input's number in one byte.
const maxMuxInputs = 32

// ParseMux parses an output and its inputs, as in "ref,safe=stop.bin teleop,expiry=sns planner,live=200ms". read reads
// the safe frame.
func ParseMux(text string, read ReadFile) (Mux, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return Mux{}, errors.New("mux: want OUTPUT INPUT…, as in \"ref teleop,expiry=sns planner,live=200ms\"")
	}
	output, settings := Split(fields[0])
	m := Mux{Output: output}
	var err error
	for _, s := range settings {
		err = errors.Join(err, cmp.Or(s.Check(), m.Set(s.Key, s.Value, read)))
	}
	for _, field := range fields[1:] {
		in, bad := ParseMuxInput(field)
		m.Inputs, err = append(m.Inputs, in), errors.Join(err, bad)
	}
	if err == nil {
		err = m.Check()
	}
	if err != nil {
		return Mux{}, fmt.Errorf("mux %q: %w", text, err)
	}
	return m, nil
}

// ParseMuxInput parses CHANNEL,expiry=RULE or CHANNEL,live=TIME, which ,operator=true may follow.
func ParseMuxInput(text string) (in MuxInput, err error) {
	name, settings := Split(text)
	in.Channel = name
	for _, s := range settings {
		var bad error
		switch s.Key {
		case "expiry":
			in.Expiry, bad = stamps.ParseRule(s.Value)
		case "live":
			if in.Live, bad = parseBudget(s.Value); in.Live > mostLive {
				bad = fmt.Errorf("%q: want at most %v", s.Value, mostLive)
			}
		case "operator":
			in.Operator, bad = parseSwitch(s.Value)
		default:
			return in, fmt.Errorf("input %q: option %q is not known; there are expiry, live and operator", text, s.Key)
		}
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("input %s: %s %w", name, s.Key, bad))
		}
	}
	return in, err
}

// Set sets one option: safe, hold, catch_up, meta or file_mode.
func (m *Mux) Set(key, value string, read ReadFile) (err error) {
	switch key {
	case "safe":
		m.Safe.File = value
		if m.Safe.Frame, err = readSafe(value, read); err != nil {
			err = fmt.Errorf("%q: the safe frame cannot be used: %w", value, err)
		}
	case "hold":
		if m.Hold, err = time.ParseDuration(value); err != nil || m.Hold < 0 || m.Hold > mostLive {
			err = fmt.Errorf("%q: want a time of at most 1h, as in 500ms", value)
		}
	case "catch_up":
		m.CatchUp, err = parseSwitch(value)
	case "meta":
		m.Meta, err = parseSwitch(value)
	case "file_mode":
		m.FileMode, err = ParseFileMode(value)
	default:
		return fmt.Errorf("option %q is not known; there are safe, hold, catch_up, meta and file_mode", key)
	}
	if err != nil {
		return &optionError{key, err}
	}
	return nil
}

// Check returns an error if the rule is invalid.
func (m Mux) Check() error {
	errs := []error{localach.CheckName(m.Output), m.Safe.check()}
	if m.Meta {
		errs = append(errs, CheckMetaName(m.Output))
	}
	if n := len(m.Inputs); n == 0 || n > maxMuxInputs {
		errs = append(errs, fmt.Errorf("%s: %d inputs: want 1 … %d", m.Output, n, maxMuxInputs))
	}
	for i, in := range m.Inputs {
		errs = append(errs, in.check())
		switch {
		case in.Channel == m.Output:
			errs = append(errs, fmt.Errorf("%s: the output cannot be an input", m.Output))
		case slices.ContainsFunc(m.Inputs[:i], func(earlier MuxInput) bool { return earlier.Channel == in.Channel }):
			errs = append(errs, fmt.Errorf("input %s is given twice", in.Channel))
		}
	}
	return errors.Join(append(errs, m.checkSafe())...)
}

func (in MuxInput) check() error {
	if err := localach.CheckName(in.Channel); err != nil {
		return fmt.Errorf("input %w", err)
	}
	switch {
	case (in.Expiry == "") == (in.Live == 0):
		return fmt.Errorf("input %s: want either expiry, as in %[1]s,expiry=sns, or live, as in %[1]s,live=200ms", in.Channel)
	case in.Expiry != "" && !in.Expiry.HasExpiry():
		return fmt.Errorf("input %s: frames of expiry %s do not have both a time and an expiry; want live instead, as in %[1]s,live=200ms", in.Channel, in.Expiry)
	}
	return nil
}

// StampRule returns the rule that sets the safe frame's time: that of the first input with Expiry, or an empty rule if
// no input has one.
func (m Mux) StampRule() stamps.Rule {
	for _, in := range m.Inputs {
		if in.Expiry != "" {
			return in.Expiry
		}
	}
	return ""
}

// checkSafe returns an error if the safe frame has no place for a time. It skips rules with layouts.
func (m Mux) checkSafe() error {
	r := m.StampRule()
	if m.Safe.File == "" || r == "" || r.NeedsLayout() {
		return nil
	}
	shifter, err := r.Compile(nil)
	if err == nil {
		_, err = shifter.Stamp(nil, []byte(m.Safe.Frame), time.Second)
	}
	if err != nil {
		return fmt.Errorf("safe %s: the time of the put cannot be set in it by the rule %s: %w", m.Safe.File, r, err)
	}
	return nil
}

// QoS returns the quality of service of the output. Its budget is long, since the mux checks the ages.
func (m Mux) QoS() QoS { return QoS{Class: Command, Budget: time.Hour, Meta: m.Meta} }

// Equal reports whether two rules are the same, wherever they are written.
func (m Mux) Equal(o Mux) bool {
	return m.Output == o.Output && slices.Equal(m.Inputs, o.Inputs) && m.Safe == o.Safe && m.Hold == o.Hold &&
		m.CatchUp == o.CatchUp && m.Meta == o.Meta && m.FileMode == o.FileMode
}

// String returns the rule in the form that ParseMux parses.
func (m Mux) String() string {
	text := m.Output
	for _, o := range []struct {
		key, value string
		isSet      bool
	}{
		{"safe", m.Safe.File, m.Safe.File != ""}, {"hold", m.Hold.String(), m.Hold != 0}, {"catch_up", "true", m.CatchUp},
		{"meta", "true", m.Meta}, {"file_mode", m.FileMode.String(), m.FileMode != 0},
	} {
		if o.isSet {
			text += "," + o.key + "=" + o.value
		}
	}
	return text + " " + m.InputsText()
}

// InputsText returns the inputs in the form that ParseMux parses.
func (m Mux) InputsText() string {
	var texts []string
	for _, in := range m.Inputs {
		text := in.Channel + ",live=" + in.Live.String()
		if in.Expiry != "" {
			text = in.Channel + ",expiry=" + string(in.Expiry)
		}
		if in.Operator {
			text += ",operator=true"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}

// AsMirror returns the request for the output as a mirror, which the mux feeds in place of another host.
func (m Mux) AsMirror(host string) Mirror {
	return Mirror{Host: host, Channel: m.Output, As: m.Output, QoS: m.QoS(), FileMode: m.FileMode, From: m.From}
}

// Has reports whether a channel is the output or an input.
func (m Mux) Has(channel string) bool {
	return m.Output == channel || slices.ContainsFunc(m.Inputs, func(in MuxInput) bool { return in.Channel == channel })
}

// Muxes is a list of rules.
type Muxes []Mux

// Check returns an error for each rule that is invalid, whose output has another writer, or whose inputs may bring old
// frames of other hosts.
func (ms Muxes) Check(mirrors Mirrors, accept Grants) error {
	var errs []error
	for i, m := range ms {
		if err := m.CheckAmong(ms[:i], mirrors, accept); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cmp.Or(m.From, "mux "+m.Output), err))
		}
	}
	return errors.Join(errs...)
}

// CheckAmong checks m as Muxes.Check does, after earlier rules.
func (m Mux) CheckAmong(earlier Muxes, mirrors Mirrors, accept Grants) error {
	return errors.Join(m.Check(), earlier.conflict(m), m.checkWriters(mirrors, accept))
}

// conflict returns an error if m has the output of an earlier rule, or if the output of one is an input of the other.
func (ms Muxes) conflict(m Mux) error {
	for _, other := range ms {
		switch {
		case other.Output == m.Output:
			return fmt.Errorf("another mux has the output %s", m.Output)
		case other.Has(m.Output):
			return fmt.Errorf("the output %s is an input of another mux", m.Output)
		case m.Has(other.Output):
			return fmt.Errorf("the input %s is the output of another mux", other.Output)
		}
	}
	return nil
}

// checkWriters returns an error if a mirror or an accepted push writes the output, or writes an input without class
// command. It knows only rules that name one channel.
func (m Mux) checkWriters(mirrors Mirrors, accept Grants) error {
	var errs []error
	check := func(name, what string, qos QoS) {
		i := slices.IndexFunc(m.Inputs, func(in MuxInput) bool { return in.Channel == name })
		switch {
		case name == m.Output:
			errs = append(errs, fmt.Errorf("the output %s is written by %s too; choose another name for one of them", name, what))
		case i < 0:
		case qos.Class != Command:
			errs = append(errs, fmt.Errorf("the input %s is written by %s without class command, so that old frames may come; add class: command there", name, what))
		case m.Inputs[i].Expiry != "" && qos.Stamps != m.Inputs[i].Expiry:
			errs = append(errs, fmt.Errorf("the input %s is written by %s without stamps: %s, so that its expiry counts by another host's clock; add stamps: %[3]s there", name, what, m.Inputs[i].Expiry))
		}
	}
	for _, w := range mirrors {
		if w.Merge || !w.Deny && !IsPattern(w.Host) && !IsPattern(w.Channel) {
			check(w.Into(w.Host, w.Channel), cmp.Or(w.From, "the mirror of "+w.Host+"/"+w.Channel), w.QoS)
		}
	}
	for _, g := range accept {
		for _, name := range g.Channels {
			if !g.Deny {
				check(name, cmp.Or(g.From, "an accepted push"), g.QoS)
			}
		}
	}
	return errors.Join(errs...)
}

// For returns the rule with an output; false if there is none.
func (ms Muxes) For(output string) (Mux, bool) {
	i := slices.IndexFunc(ms, func(m Mux) bool { return m.Output == output })
	if i < 0 {
		return Mux{}, false
	}
	return ms[i], true
}

// Without returns the rules with other outputs.
func (ms Muxes) Without(output string) Muxes {
	return slices.DeleteFunc(slices.Clone(ms), func(m Mux) bool { return m.Output == output })
}
