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
	Replays          // delivers an earlier message again after each message
	Reorders         // delivers the messages of each pair in reverse order
	Doubles          // delivers each message twice
	Forges           // flips one bit of each message
	Withholds        // delivers no more messages
	Delays           // delays each message and keeps their order
	Impersonates     // delivers frames of another channel, and connects streams to another host
)

func (l Lie) String() string {
	return [...]string{"honest", "replays", "reorders", "doubles", "forges", "withholds", "delays", "impersonates"}[l]
}

// Deceit is how a hub deceives readers of frames and the ends of streams.
type Deceit struct {
	Frames, Streams Lie
	By              time.Duration // delay of Delays
}

// Deceive makes the hub deceive its hosts from now on. The hub then keeps all frames, for Replays.
func (h *Hub) Deceive(d Deceit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deceit = d
}

// answers returns the frames that a reader gets instead of the newest one. h.mu must be held.
func (h *Hub) answers(p *hubStored) [][]byte {
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

// flipBit returns b with one bit flipped, a different bit for each n.
func flipBit(b []byte, n uint64) []byte {
	b = bytes.Clone(b)
	if len(b) > 0 {
		bit := n * 2654435761 % (8 * uint64(len(b)))
		b[bit/8] ^= 1 << (bit % 8)
	}
	return b
}

// messages returns the messages that the other end of a stream gets instead of m. h.mu must be held.
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

// hubRoute is a stream that leads to a third host instead of its addressee.
type hubRoute struct{ dialler, addressee, third string }

// misroute sends messages of the dialler to a third host, and returns its answers in the name of the
// addressee. h.mu must be held.
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

// later calls do now, or later if the hub delays messages. The nth answer to one fetch is sent n ms
// after the first, so that the reader sees all of them. h.mu must be held.
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
