package testnet

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

// Lie is a way in which the operator of a hub deceives its hosts.
type Lie uint8

const (
	Honest       Lie = iota
	Replays          // after each message one from before comes again
	Reorders         // of each two the second comes first
	Doubles          // each comes twice
	Forges           // in each some bit is another one
	Withholds        // none comes any more
	Delays           // each comes later, in order
	Impersonates     // frames are those of another channel; a stream leads to another host
)

func (l Lie) String() string {
	return [...]string{"honest", "replays", "reorders", "doubles", "forges", "withholds", "delays", "impersonates"}[l]
}

// Deceit is what a hub does with frames, and with the messages of streams.
type Deceit struct {
	Frames, Streams Lie
	By              time.Duration // how much later, with Delays
}

// Deceive has the hub lie from now on. It then keeps all frames, to replay them.
func (h *Hub) Deceive(d Deceit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deceit = d
}

// answers is what a reader gets for the newest frame of a place. Needs mu.
func (h *Hub) answers(c *HubChannel, p *hubStored) [][]byte {
	switch h.deceit.Frames {
	case Replays:
		if len(p.history) > 1 {
			return [][]byte{p.frame, p.history[int(p.number)%(len(p.history)-1)]}
		}
	case Reorders:
		if len(p.reordered) == 0 {
			p.reordered = [][]byte{p.frame}
			return nil
		}
		first := p.reordered[0]
		p.reordered = nil
		return [][]byte{p.frame, first}
	case Doubles:
		return [][]byte{p.frame, p.frame}
	case Forges:
		return [][]byte{flipBit(p.frame, p.number)}
	case Withholds:
		return nil
	case Impersonates:
		for _, key := range slices.Sorted(maps.Keys(h.channels)) {
			if other := h.channels[key]; other != p && other.frame != nil {
				return [][]byte{other.frame}
			}
		}
		return nil
	}
	return [][]byte{p.frame}
}

// flipBit is b with one other bit; another one for each n.
func flipBit(b []byte, n uint64) []byte {
	b = bytes.Clone(b)
	if len(b) > 0 {
		bit := n * 2654435761 % (8 * uint64(len(b)))
		b[bit/8] ^= 1 << (bit % 8)
	}
	return b
}

// messages is what becomes of a message of a stream. Needs mu.
func (h *Hub) messages(m hubMessage) []hubMessage {
	key := m.from + " " + m.id
	switch lie := h.deceit.Streams; {
	case lie == Impersonates:
		return []hubMessage{h.misroute(m)}
	case m.kind != hubData:
	case lie == Doubles:
		return []hubMessage{m, m}
	case lie == Replays:
		before, ok := h.heldMessages[key]
		h.heldMessages[key] = m
		if ok {
			return []hubMessage{m, before}
		}
	case lie == Reorders:
		before, ok := h.heldMessages[key]
		delete(h.heldMessages, key)
		if ok {
			return []hubMessage{m, before}
		}
		h.heldMessages[key] = m
		return nil
	case lie == Forges:
		m.data = flipBit(m.data, m.number)
	case lie == Withholds:
		return nil
	}
	return []hubMessage{m}
}

// hubRoute is where a stream leads that was meant for another host.
type hubRoute struct{ dialler, addressee, third string }

// misroute brings what the dialler says to a third host, and the answers back in the name of the one
// that was meant. Needs mu.
func (h *Hub) misroute(m hubMessage) hubMessage {
	r, ok := h.routes[m.id]
	if !ok && m.kind == hubOpen {
		for _, name := range slices.Sorted(maps.Keys(h.hosts)) {
			if name != m.from && name != m.to {
				r, ok = hubRoute{m.from, m.to, name}, true
				h.routes[m.id] = r
				break
			}
		}
	}
	switch {
	case ok && m.from == r.dialler:
		m.to = r.third
	case ok && m.from == r.third:
		m.from = r.addressee
	}
	return m
}

// later calls do now, or when a hub that lies does: it says the nth answer to one pull some time
// after the first, or a reader would see the last alone. Needs mu.
func (h *Hub) later(lie Lie, nth int, do func()) {
	wait := time.Duration(nth) * time.Millisecond
	if lie == Delays {
		wait = h.deceit.By
	}
	if wait == 0 {
		do()
		return
	}
	queue := &hubLine{hub: h, params: Params{Delay: wait}}
	if lie == Delays {
		h.delayed.params.Delay = wait
		queue = &h.delayed
	}
	queue.send(0, do)
}
