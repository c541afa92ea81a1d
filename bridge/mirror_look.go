package bridge

import "time"

// lookAgain is how soon the node asks the origin again for a mirror whose file is damaged or
// lacks the newest frame. For the same frame the wait doubles each time, up to lookSeldom,
// since that frame may never fit.
const (
	lookAgain  = time.Second
	lookSeldom = time.Minute
)

// mirrorLook repairs a mirror whose file was removed or damaged, or whose readers cannot be
// woken. When the file lacks the newest frame, it asks the origin to send that frame again,
// since no newer one may ever come.
func (n *Node) mirrorLook(m *binding) {
	l := m.link
	m.Tend(m.reading(n.now()))
	if m.achd != nil {
		m.achd.CheckFile()
		return
	}
	if l == nil {
		if m.retry != 0 && n.now() >= m.retry || m.parting {
			n.loop.changed()
		}
		return
	}
	seq, owed, err := m.Look()
	wait := lookAgain
	if owed && seq == m.asked {
		wait = m.wait
	}
	soon := m.looked != 0 && n.now() < m.looked+wait
	if err == nil && !owed || soon {
		return
	}
	if err != nil {
		n.log.Warn("mirror's file is not usable any more", "channel", m.Name, "err", err)
	}
	m.looked = n.now()
	if err == nil {
		m.asked, m.wait = seq, min(2*wait, lookSeldom)
		again := m.update()
		again.Owed = true // the origin sends its newest frame once more
		l.send(again)
		return
	}
	l.unsubscribe(m.subID)
	n.loop.changed()
}
