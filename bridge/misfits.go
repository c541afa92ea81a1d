package bridge

import (
	"errors"
	"io"

	"achbridge/bridge/layout"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// Whether frames fit the type of their channel is looked at when somebody asks for the status, at the
// newest frame alone: on the way of a frame nothing is compared.

// typed is a channel of this host whose type is known here.
type typed struct {
	fit    *layout.Fit
	from   status.TypeSource
	newest func(buf []byte) (int, error) // as localach.Reader.TryNext
}

// mostCounted is the largest frame that is copied to see how long its tail says to be.
const mostCounted = 64 << 10

// misfit says how the newest frame does not fit; nil if it does, or cannot be looked at now.
func (t typed) misfit() *status.Misfit {
	size, err := t.newest(nil)
	if !errors.Is(err, io.ErrShortBuffer) {
		return nil
	}
	var frame []byte
	if t.fit.ByContent() {
		if size > mostCounted {
			return nil
		}
		frame = make([]byte, size)
		if size, err = t.newest(frame); err != nil {
			return nil
		}
	}
	if err := t.fit.Check(size, frame[:min(size, len(frame))]); err != nil {
		return &status.Misfit{Why: err.Error(), TypeFrom: t.from}
	}
	return nil
}

// typed are the channels and the mirrors of this host whose types are known, by name. A mirror's type
// is the one that this host's own configuration names, or else what its origin tells, if that is here.
func (n *Node) typed() (locals, mirrors map[string]typed) {
	locals, mirrors = map[string]typed{}, map[string]typed{}
	for name, l := range n.locals {
		if l.ch != nil && l.layout != nil && l.layout.fit != nil {
			locals[name] = typed{l.layout.fit, status.TypeFromFile, l.ch.Reader().TryNext}
		}
	}
	for name, m := range n.mirrors {
		if fit, from := n.typeOf(m); fit != nil {
			mirrors[name] = typed{fit, from, m.Newest}
		}
	}
	return locals, mirrors
}

// typeOf is the type of a mirror's frames; nil when it is not known here.
func (n *Node) typeOf(m *binding) (*layout.Fit, status.TypeSource) {
	for i := range n.cfg.Layouts {
		if t := &n.cfg.Layouts[i]; rule.MatchType(t.Channels, m.Host+"/"+m.Channel, m.Name) {
			return t.fit, status.TypeFromFile
		}
	}
	hash := m.described().hash
	if hash == (wire.Hash{}) {
		return nil, ""
	}
	return n.layouts.fitOf(hash), status.TypeFromOrigin
}

// tellMisfits adds to a report which channels have a newest frame that does not fit their type.
func tellMisfits(s *status.Report, locals, mirrors map[string]typed) {
	for i := range s.Locals {
		if t, known := locals[s.Locals[i].Channel]; known {
			s.Locals[i].Misfit = t.misfit()
		}
	}
	for i := range s.Mirrors {
		if t, known := mirrors[s.Mirrors[i].Name]; known {
			s.Mirrors[i].Misfit = t.misfit()
		}
	}
}
