package bridge

import (
	"fmt"

	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/trust"
	"achbridge/wire"
)

// stampOffset is the offset by which the stamps of one origin are shifted.
type stampOffset struct {
	*mirror.Offset
	origin trust.NodeID
}

// stampSource returns how the stamps in the frames of channel c are shifted for m, a mirror that requests it. It returns
// an error if they cannot be shifted.
func (n *Node) stampSource(m *binding, l *link, c wire.Channel, qos rule.QoS) (*mirror.StampSource, error) {
	switch {
	case qos.Stamps == "":
		m.stamps = stampOffset{}
		return nil, nil
	case c.Origin != nil:
		return nil, fmt.Errorf("stamps %s: %s passes on a channel of %s, and does not name the clock of the stamps; mirror it from %s, or leave the option out", qos.Stamps, l.host, c.Origin.Host, c.Origin.Host)
	case l.hello.start == 0 || l.hello.machine.Boot == (Machine{}.Boot):
		return nil, fmt.Errorf("stamps %s: %s does not tell its monotonic clock; update %s", qos.Stamps, l.host, l.host)
	}
	shifter, err := qos.Stamps.Compile(nil)
	if err != nil {
		return nil, fmt.Errorf("stamps %s: %w", qos.Stamps, err)
	}
	m.stamps = n.mirrors.stampOffset(l.peer)
	return &mirror.StampSource{
		Shifter: shifter, Start: l.hello.start, Boot: l.hello.machine.Boot, Offset: m.stamps.Offset,
		Read: func() mirror.Reading { return l.frames.ReadClock(n.now()) },
	}, nil
}

// stampOffset returns the offset for the stamps of an origin. It lasts as long as a mirror has it, so that a change of
// the link does not move the stamps.
func (t *mirrorTable) stampOffset(origin trust.NodeID) stampOffset {
	for _, m := range t.byName {
		if m.stamps.Offset != nil && m.stamps.origin == origin {
			return m.stamps
		}
	}
	return stampOffset{&mirror.Offset{}, origin}
}
