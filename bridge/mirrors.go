package bridge

import (
	"fmt"
	"strings"
	"time"

	"achbridge/bridge/locals"
	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/wire"
)

// mirrorTable has the mirrors of this host. It belongs to the node's goroutine, and only its methods write it.
type mirrorTable struct {
	common  mirror.Config // the same for all mirrors
	adopt   []string
	prefix  string // begins the names of temporary mirrors
	byName  map[string]*binding
	taken   map[string]bool // names of mirrors that have not closed their files yet, and of channels that Claim gave to a program
	perHost map[string]int
	made    uint32 // number of mirrors made in this run
}

func newMirrorTable(common mirror.Config, adopt []string, prefix string) mirrorTable {
	return mirrorTable{common: common, adopt: adopt, prefix: prefix, byName: make(map[string]*binding), taken: make(map[string]bool), perHost: make(map[string]int)}
}

// add makes the mirror that w asks for, whether there is room or not.
func (t *mirrorTable) add(host, channel string, w rule.Mirror) *binding {
	t.perHost[host]++
	t.made++
	cfg := t.common
	cfg.Name, cfg.Host, cfg.Channel, cfg.Mode = w.Name(host, channel), host, channel, w.FileMode
	cfg.Temporary, cfg.Unauthenticated = strings.HasPrefix(cfg.Name, t.prefix), rule.IsAchd(host)
	m := &binding{id: t.made, Mirror: mirror.New(cfg, w.QoS, t.adopt)}
	t.byName[cfg.Name] = m
	return m
}

// remove closes a mirror. Its name is taken until then; closed is called when that ends later.
func (t *mirrorTable) remove(m *binding, closed func()) {
	if !m.Close(closed) {
		t.taken[m.Name] = true
	}
	delete(t.byName, m.Name)
	if t.perHost[m.Host]--; t.perHost[m.Host] == 0 {
		delete(t.perHost, m.Host)
	}
}

// take keeps a name from mirrors until release.
func (t *mirrorTable) take(name string) { t.taken[name] = true }

// release lets mirrors have a name again.
func (t *mirrorTable) release(name string) { delete(t.taken, name) }

// setAdopt replaces the names of channels that mirrors may write into.
func (t *mirrorTable) setAdopt(adopt []string) {
	t.adopt = adopt
	for _, m := range t.byName {
		m.SetAdopt(adopt)
	}
}

// keptFree: a 16th of the room for mirrors is kept for requests that name their channel.
// Requests with patterns cannot use it.
const keptFree = 16

// noRoom returns why there is no room for another mirror of a host's channel, "" if there is room. w is the request for the
// mirror.
func (t *mirrorTable) noRoom(host, channel string, w rule.Mirror) string {
	most, all := maxSubscriptions, maxMirrors
	if named := w.Host == host && w.Channel == channel; !named {
		most, all = most-most/keptFree, all-all/keptFree
	}
	switch {
	case t.perHost[host] >= most:
		return fmt.Sprintf("%d of its channels are mirrored already", most)
	case len(t.byName) >= all:
		return fmt.Sprintf("there are %d mirrors already", all)
	}
	return ""
}

// channels returns the hosts and channels that have a mirror.
func (t *mirrorTable) channels() map[[2]string]bool {
	list := make(map[[2]string]bool, len(t.byName))
	for _, m := range t.byName {
		list[[2]string{m.Host, m.Channel}] = true
	}
	return list
}

// twinOf returns the mirror of this host that has the same source as c, nil for none. Frames
// that arrive here on a second way may have come through this host itself.
func (t *mirrorTable) twinOf(m *binding, c wire.Channel) *binding {
	if c.Origin == nil {
		return nil
	}
	for _, other := range t.byName {
		if other != m && other.from == (source{c.Origin.Node, c.Origin.Channel}) {
			return other
		}
	}
	return nil
}

// hasSource reports whether a mirror has had a subscription since the daemon started. The
// file does not say which channel it mirrors.
func (t *mirrorTable) hasSource(name string) bool {
	m := t.byName[name]
	return m != nil && m.from != source{}
}

// originOf returns the origin of a relayed mirror; nil for a channel of this host.
func (t *mirrorTable) originOf(c *locals.Channel) *wire.Origin {
	m := t.byName[c.Name]
	switch {
	case !c.IsMirror:
		return nil
	case m == nil:
		return &wire.Origin{Node: c.Tag.Node}
	case m.origin.Origin != nil:
		return m.origin.Origin
	}
	return &wire.Origin{Node: m.from.node, Host: m.Host, Channel: m.Channel}
}

// layoutHash returns the hash of a channel's layout for the catalog. A mirror has that of its origin.
func (t *mirrorTable) layoutHash(c *locals.Channel) wire.Hash {
	if m := t.byName[c.Name]; c.IsMirror && m != nil {
		return m.remoteChannel().layout
	}
	return c.Layout.Hash()
}

// unbar lets the node ask again for refused channels that a host has listed again, since
// its rules may have changed. It visits each mirror once, however many channels the
// host lists.
func (t *mirrorTable) unbar(host string, named []wire.Channel) {
	names := make(map[string]bool, len(named))
	for _, c := range named {
		names[c.Name] = true
	}
	for _, m := range t.byName {
		if m.Host == host && names[m.Channel] {
			m.barred = barred{}
		}
	}
}

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
		n.cfg.Log.Warn("mirror's file is not usable any more", "channel", m.Name, "err", err)
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
