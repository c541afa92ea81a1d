package bridge

import (
	"fmt"

	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// mergeOutput returns the output of the merge w, and makes it if there is none. It returns nil while another mirror has the
// name, or if the limit of mirrors is reached.
func (n *Node) mergeOutput(w rule.Mirror) *binding {
	output := w.Output()
	m := n.mirrors.byName[output]
	switch {
	case m != nil && !m.IsMerge:
		return nil // a mirror with the name of the output, which the node is about to end
	case m != nil:
		return m
	case n.mirrors.reserved[output], len(n.mirrors.byName) >= maxMirrors:
		return nil
	}
	cfg := n.mirrors.common
	cfg.Name, cfg.Host, cfg.Channel, cfg.Mode, cfg.IsMerge = output, n.cfg.Host, output, w.FileMode, true
	m = n.mirrors.insert(cfg, rule.MergeQoS())
	m.from = source{n.cfg.Node, output}
	return m
}

// bindMerges makes the outputs of all merges, and sets the status of those that no host feeds.
func (n *Node) bindMerges() {
	for _, w := range n.requests.rules {
		if !w.Merge {
			continue
		}
		if m := n.mergeOutput(w); m != nil && !n.isMergeFed(m.Mirror) {
			m.Unfed(status.CausePeerMissing, "no linked host feeds it")
		}
	}
}

func (n *Node) isMergeFed(output *mirror.Mirror) bool {
	for _, m := range n.mirrors.byName {
		if m.Into == output && m.link != nil {
			return true
		}
	}
	return false
}

// showMerge adds to s, the status of m, whether m is the output or a mirror of a merge.
func (n *Node) showMerge(m *binding, s *status.Mirror) {
	if m.Into != nil {
		s.Into = m.Into.Name
	}
	if !m.IsMerge {
		return
	}
	s.Merge = &status.Merge{}
	for _, x := range n.mirrors.byName {
		if x.Into != m.Mirror {
			continue
		}
		s.Merge.Mirrors++
		if x.link != nil && !x.link.isInSilence() {
			s.Merge.Fed++
		}
	}
	if s.Reason == "" {
		s.Reason = fmt.Sprintf("fed by %d of %d hosts", s.Merge.Fed, s.Merge.Mirrors)
	}
}
