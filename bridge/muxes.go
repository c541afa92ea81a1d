package bridge

import (
	"cmp"
	"fmt"

	"achbridge/bridge/layout"
	"achbridge/bridge/mux"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// Mux adds a mux, in place of an earlier one with the same output. It returns an error if the output has another
// writer, or if the rule is invalid.
func (n *Node) Mux(r rule.Mux) error {
	return n.loop.change(func() error {
		if err := r.CheckAmong(n.requests.muxes().Without(r.Output), n.requests.list(), n.cfg.Accept); err != nil {
			return fmt.Errorf("mux %s: %w", r.Output, err)
		}
		if m := n.mirrors.byName[r.Output]; m != nil && m.Host != n.cfg.Host {
			return fmt.Errorf("mux %s: it is a mirror that %s writes; choose another output, or end that mirror", r.Output, m.Host)
		}
		n.requests.addMux(r)
		for _, l := range n.links {
			n.judgePushes(l) // nobody else may push into the output
		}
		return nil
	})
}

// Unmux ends the mux of an output, whose file stays. It returns fs.ErrNotExist if there is none.
func (n *Node) Unmux(output string) error {
	return n.loop.change(func() error { return n.requests.removeMux(output) })
}

// bindMuxes makes the outputs of the muxes, starts the muxes, and passes on changed rules.
func (n *Node) bindMuxes() {
	for _, r := range n.requests.muxes() {
		m := n.mirrors.byName[r.Output]
		switch {
		case m == nil && (n.mirrors.reserved[r.Output] || len(n.mirrors.byName) >= maxMirrors):
			continue
		case m == nil:
			m = n.mirrors.add(n.cfg.Host, r.Output, r.AsMirror(n.cfg.Host))
		case m.Host != n.cfg.Host:
			continue // it ends, since a mux has its name
		}
		facts := n.muxFacts(r)
		if m.mux != nil {
			m.mux.Set(r, facts)
			continue
		}
		m.mux = mux.Start(n.loop.ctx, mux.Config{
			Node: n.cfg.Node, Dir: n.cfg.Dir, Source: n.cfg.Source, Clock: n.clocks.ring, Monotonic: n.clocks.mirror,
			Events: &n.events, Spawn: n.loop.work.Go,
		}, r, facts, m.Mirror)
		n.localChanged(r.Output)
	}
}

// checkMux renews the facts of an output's mux and lets it check its files.
func (n *Node) checkMux(m *binding) {
	if r, ok := n.requests.muxes().For(m.Name); ok {
		m.mux.Set(r, n.muxFacts(r))
	}
	m.mux.CheckFiles()
}

// muxFacts returns the facts about the inputs of a mux.
func (n *Node) muxFacts(r rule.Mux) []mux.InputFacts {
	facts := make([]mux.InputFacts, len(r.Inputs))
	for i, in := range r.Inputs {
		facts[i] = n.muxInputFacts(in)
	}
	return facts
}

func (n *Node) muxInputFacts(in rule.MuxInput) (facts mux.InputFacts) {
	m := n.mirrors.byName[in.Channel]
	if m != nil {
		qos, _ := m.Holds()
		facts.Mirror = m.Mirror
		switch {
		case m.achd != nil:
			facts.Problem = fmt.Sprintf("it is received from %s without authentication, and its age is unknown", m.Host)
		case qos.Class != rule.Command:
			facts.Problem = fmt.Sprintf("it is a mirror of %s without class command, so that old frames may be put", m.Host)
		case in.Expiry != "" && qos.Stamps != in.Expiry:
			facts.Problem = fmt.Sprintf("its stamps count by the clock of %s; set stamps %s in the rule of this mirror", m.Host, in.Expiry)
		}
	}
	switch lock := n.locks.Get(in.Channel); {
	case !in.Operator:
	case lock.Generation == 0:
		facts.Problem = cmp.Or(facts.Problem, "no host holds its operator lock")
	case m == nil:
		facts.Problem = "the holder of its operator lock does not push it"
	default:
		facts.Generation = lock.Generation
	}
	if in.Expiry == "" || facts.Problem != "" {
		return facts
	}
	var err error
	if facts.Shifter, err = n.expiryShifter(in, m); err != nil {
		facts.Problem = err.Error()
	}
	return facts
}

// expiryShifter returns the shifter that reads an input's expiry. m is the input's mirror, nil for a local channel.
// It returns the same pointer until the layout changes.
func (n *Node) expiryShifter(in rule.MuxInput, m *binding) (s *stamps.Shifter, err error) {
	local := n.cfg.Layouts.ForLocal(in.Channel)
	key := expiryKey{rule: in.Expiry}
	switch {
	case !in.Expiry.NeedsLayout():
	case m != nil:
		key.layout = n.stampLayout(m, m.origin, in.Expiry)
	default:
		key.layout = local.Hash()
	}
	if s := n.mirrors.expiries[key]; s != nil {
		return s, nil
	}
	switch {
	case !in.Expiry.NeedsLayout():
		s, err = in.Expiry.Compile(nil)
	case m != nil && m.link != nil:
		s, err = n.stampShifter(m, m.link, m.origin, in.Expiry)
	case local == nil:
		err = fmt.Errorf("no layout of %s is known; name its file in types", in.Channel)
	default:
		var fields *layout.Layout
		if fields, err = layout.DecodeLayout(local.Encoded); err == nil {
			s, err = in.Expiry.Compile(fields)
		}
	}
	if err == nil {
		n.mirrors.expiries[key] = s
	}
	return s, err
}

// expiryKey identifies what reads the expiry of frames: the rule, and the layout if the rule needs one.
type expiryKey struct {
	rule   stamps.Rule
	layout wire.Hash
}

// checkMuxFiles makes the muxes that have a channel check its file.
func (n *Node) checkMuxFiles(channel string) {
	for _, r := range n.requests.muxes() {
		if n.mirrors.isOutput(r.Output) && r.Has(channel) {
			n.mirrors.byName[r.Output].mux.CheckFiles()
		}
	}
}

// showMux adds the state of the mux that feeds the mirror, if there is one, to the mirror's status.
func (n *Node) showMux(m *binding, s *status.Mirror) {
	s.Mux = m.mux.Status(n.now())
	switch {
	case s.Mux == nil || s.Reason != "":
	case s.Mux.Winner == "":
		s.Reason = "no input is live"
	default:
		s.Reason = s.Mux.Winner + " wins"
	}
}
