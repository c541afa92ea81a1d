package bridge

import (
	"fmt"

	"achbridge/bridge/layout"
	"achbridge/bridge/mux"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
)

// Mux adds a mux, in place of an earlier one with the same output. It returns an error if the output has another
// writer, or if the rule is invalid.
func (n *Node) Mux(r rule.Mux) error {
	return n.loop.change(func() error {
		others := n.requests.muxes().Without(r.Output)
		if err := append(others, r).Check(n.requests.list(), n.cfg.Accept); err != nil {
			return err
		}
		if m := n.mirrors.byName[r.Output]; m != nil && m.Host != n.cfg.Host {
			return fmt.Errorf("mux %s: it is a mirror that %s writes; choose another output, or end that mirror", r.Output, m.Host)
		}
		n.requests.addMux(r)
		return nil
	})
}

// Unmux ends the mux of an output, whose file stays. It returns fs.ErrNotExist if there is none.
func (n *Node) Unmux(output string) error {
	return n.loop.change(func() error { return n.requests.removeMux(output) })
}

// bindMuxes makes the outputs of the muxes and starts the muxes.
func (n *Node) bindMuxes() {
	for _, r := range n.requests.muxes() {
		m := n.mirrors.byName[r.Output]
		switch {
		case m == nil && (n.mirrors.reserved[r.Output] || len(n.mirrors.byName) >= maxMirrors):
			continue
		case m == nil:
			m = n.mirrors.add(n.cfg.Host, r.Output, r.AsMirror(n.cfg.Host))
		case m.Host != n.cfg.Host:
			m.nameConflict(&n.warnings, rule.Address{Host: n.cfg.Host, Channel: r.Output})
			continue
		}
		facts := make([]mux.InputFacts, len(r.Inputs))
		for i, in := range r.Inputs {
			facts[i] = n.muxInputFacts(in)
		}
		switch {
		case !m.mux.Runs(r):
			m.mux = mux.Start(n.loop.ctx, n.muxConfig(), r, facts, m.Mirror, m.mux)
			n.localChanged(r.Output)
		default:
			m.mux.SetFacts(facts)
		}
	}
}

func (n *Node) muxConfig() mux.Config {
	return mux.Config{
		Node: n.cfg.Node, Dir: n.cfg.Dir, Source: n.cfg.Source, Clock: n.clocks.ring, At: n.clocks.mirror.At, Suspended: n.clocks.mirror.Suspended,
		Events: &n.events, Spawn: n.loop.work.Go, Compile: n.compileExpiry,
	}
}

// muxInputFacts returns the facts about an input.
func (n *Node) muxInputFacts(in rule.MuxInput) mux.InputFacts {
	m := n.mirrors.byName[in.Channel]
	if m == nil {
		return mux.InputFacts{}
	}
	qos, _ := m.Holds()
	facts := mux.InputFacts{Mirror: m.Mirror}
	switch {
	case m.achd != nil:
		facts.Denied = fmt.Sprintf("it comes from %s without authentication, and its age is unknown", m.Host)
	case qos.Class != rule.Command:
		facts.Denied = fmt.Sprintf("it is a mirror of %s without class command, so that old frames may come", m.Host)
	case in.Expiry != "" && qos.Stamps == "":
		facts.Denied = fmt.Sprintf("its stamps count by the clock of %s; set stamps in the rule of this mirror", m.Host)
	}
	return facts
}

// compileExpiry returns the shifter that judges the stamps of a channel of this host, local or a mirror. Any goroutine
// may call it.
func (n *Node) compileExpiry(channel string, r stamps.Rule) (s *stamps.Shifter, err error) {
	if !r.NeedsLayout() {
		return r.Compile(nil)
	}
	if !n.loop.call(func() { s, err = n.compileWithLayout(channel, r) }) {
		return nil, errEnded
	}
	return s, err
}

func (n *Node) compileWithLayout(channel string, r stamps.Rule) (*stamps.Shifter, error) {
	if m := n.mirrors.byName[channel]; m != nil && m.link != nil {
		return n.stampShifter(m, m.link, m.origin, r)
	}
	local := n.cfg.Layouts.ForLocal(channel)
	if local == nil {
		return nil, fmt.Errorf("no layout of %s is known; name its file in types", channel)
	}
	fields, err := layout.DecodeLayout(local.Encoded)
	if err != nil {
		return nil, err
	}
	return r.Compile(fields)
}

// checkMuxFiles makes the muxes that have a channel check its file.
func (n *Node) checkMuxFiles(channel string) {
	for _, r := range n.requests.muxes() {
		if m := n.mirrors.byName[r.Output]; m != nil && m.mux != nil && r.Has(channel) {
			m.mux.CheckFiles()
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
