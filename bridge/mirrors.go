package bridge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"achbridge/bridge/locals"
	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/wire"
)

// mirrorTable has the mirrors of this host. It belongs to the node's goroutine, and only its methods write it.
type mirrorTable struct {
	common   mirror.Config // configuration that all mirrors share
	adopt    []string
	prefix   string // prefix of the names of temporary mirrors
	byName   map[string]*binding
	reserved map[string]bool // names of removed mirrors that still have to close their files, and of channels that Claim gave to a program
	perHost  map[string]int
	// goneSince has, for each host with mirrors but without a link, the node time of the first check that found no link.
	goneSince map[string]time.Duration
	expiries  map[expiryKey]*stamps.Shifter // shared by all inputs of muxes
	offsets   map[clockID]*mirror.Offset    // offsets of stamps
	made      uint32                        // number of mirrors made by this daemon process
}

func newMirrorTable(common mirror.Config, adopt []string, prefix string) mirrorTable {
	return mirrorTable{
		common: common, adopt: adopt, prefix: prefix, byName: make(map[string]*binding), reserved: make(map[string]bool), perHost: make(map[string]int), goneSince: make(map[string]time.Duration),
		expiries: make(map[expiryKey]*stamps.Shifter), offsets: make(map[clockID]*mirror.Offset),
	}
}

// add makes the mirror that w requests. It does not check the limits.
func (t *mirrorTable) add(host, channel string, w rule.Mirror) *binding {
	cfg := t.common
	cfg.Name, cfg.Host, cfg.Channel, cfg.Mode = w.Name(host, channel), host, channel, w.FileMode
	cfg.Temporary, cfg.Unauthenticated = strings.HasPrefix(cfg.Name, t.prefix), rule.IsAchd(host)
	if w.Merge {
		cfg.Into = t.byName[w.Output()].Mirror
	}
	return t.insert(cfg, w.QoS)
}

// insert makes a mirror and adds it to the table.
func (t *mirrorTable) insert(cfg mirror.Config, qos rule.QoS) *binding {
	t.perHost[cfg.Host]++
	t.made++
	m := &binding{id: t.made, Mirror: mirror.New(cfg, qos, t.adopt)}
	t.byName[cfg.Name] = m
	return m
}

// inClosingOrder returns all mirrors, those of a merge before its output: they can be closed in this order.
func (t *mirrorTable) inClosingOrder() []*binding {
	return slices.SortedFunc(maps.Values(t.byName), func(a, b *binding) int { return cmp.Compare(b.Name, a.Name) })
}

// remove closes a mirror. If that takes longer, the name stays taken and closed is called at the
// end.
func (t *mirrorTable) remove(m *binding, closed func()) {
	if !m.Close(closed) {
		t.reserved[m.Name] = true
	}
	delete(t.byName, m.Name)
	if t.perHost[m.Host]--; t.perHost[m.Host] == 0 {
		delete(t.perHost, m.Host)
	}
}

// take reserves a name, so that no mirror gets it until release.
func (t *mirrorTable) take(name string) { t.reserved[name] = true }

// release makes a name available to mirrors again.
func (t *mirrorTable) release(name string) { delete(t.reserved, name) }

// setAdopt replaces the names of channels that mirrors may write into.
func (t *mirrorTable) setAdopt(adopt []string) {
	t.adopt = adopt
	for _, m := range t.byName {
		m.SetAdopt(adopt)
	}
}

// keptFree is the divisor for the reserve: 1/keptFree of the limits is kept for requests that name
// their channel. Requests with patterns cannot use it.
const keptFree = 16

// noRoom returns the limit that prevents another mirror of a host's channel, "" if there is none.
// w is the request for the mirror.
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

// duplicateOf returns another mirror with the same source as c, nil if there is none. Frames that
// arrive by a second route may have passed through this host itself.
func (t *mirrorTable) duplicateOf(m *binding, c wire.Channel) *binding {
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

// hasSource reports whether a mirror has had a subscription since the daemon started. Before that
// the source is unknown, since the file does not contain it.
func (t *mirrorTable) hasSource(name string) bool {
	m := t.byName[name]
	return m != nil && m.from != source{}
}

// isOutput reports whether a mux writes the channel.
func (t *mirrorTable) isOutput(name string) bool {
	m := t.byName[name]
	return m != nil && m.mux != nil
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

// layoutHash returns the hash of a channel's layout for the catalog. A mirror has its origin's
// layout.
func (t *mirrorTable) layoutHash(c *locals.Channel) wire.Hash {
	if m := t.byName[c.Name]; c.IsMirror && m != nil {
		return t.remoteChannel(m).layout
	}
	return c.Layout.Hash()
}

// remoteChannel returns the channel that m mirrors. For the output of a merge it returns the channel of one of the linked
// hosts, but without a layout if these have different ones.
func (t *mirrorTable) remoteChannel(m *binding) *remoteChannel {
	if !m.IsMerge {
		return m.remoteChannel()
	}
	found := &remoteChannel{host: m.Host, channel: m.Channel}
	for _, x := range t.byName {
		if x.Into != m.Mirror || x.link == nil {
			continue
		}
		c := x.remoteChannel()
		if found.link != nil && found.layout != c.layout {
			return &remoteChannel{host: m.Host, channel: m.Channel}
		}
		found = c
	}
	return found
}

// passedClock returns the clock that a catalog names for a mirror, nil for another channel.
func (t *mirrorTable) passedClock(name string) *wire.Clock {
	if m := t.byName[name]; m != nil {
		return m.stamps.passed
	}
	return nil
}

// unbar lets the node subscribe again to refused channels that a host has advertised again, since
// its rules may have changed. It visits each mirror once, independently of the number of channels.
func (t *mirrorTable) unbar(host string, named []wire.Channel) {
	names := make(map[string]bool, len(named))
	for _, c := range named {
		names[c.Name] = true
	}
	for _, m := range t.byName {
		if m.Host == host && names[m.Channel] {
			m.refused = refusedRequest{}
		}
	}
}

// repairEvery is the delay before the node asks the origin again about a mirror whose file is
// damaged or lacks the newest frame. For the same frame the delay doubles each time, up to
// maxRepairEvery, since that frame may never fit.
const (
	repairEvery    = time.Second
	maxRepairEvery = time.Minute
)

// repairMirror repairs a mirror whose file was removed or damaged, or whose readers cannot be woken.
// If the file lacks the newest frame, repairMirror requests that frame from the origin again, since
// there may never be a newer one.
func (n *Node) repairMirror(m *binding) {
	l := m.link
	m.Tend(m.reading(n.now(), n.clocks.suspended))
	switch {
	case m.achd != nil:
		m.achd.CheckFile()
		return
	case m.mux != nil:
		n.checkMux(m)
		return
	case m.IsMerge:
		return // the mirrors of the merge check the output's file
	}
	if l == nil {
		if m.retry != 0 && n.now() >= m.retry || m.isStopping {
			n.loop.changed()
		}
		return
	}
	seq, mustRetransmit, err := m.Check()
	wait := repairEvery
	if mustRetransmit && seq == m.lastRequested {
		wait = m.wait
	}
	soon := m.repairedAt != 0 && n.now() < m.repairedAt+wait
	if err == nil && !mustRetransmit || soon {
		return
	}
	if err != nil {
		n.cfg.Log.Warn("mirror's file is not usable any more", "channel", m.Name, "err", err)
	}
	m.repairedAt = n.now()
	if err == nil {
		m.lastRequested, m.wait = seq, min(2*wait, maxRepairEvery)
		again := m.update()
		again.LastValue = true // the origin retransmits its newest frame
		l.send(again)
		return
	}
	l.unsubscribe(m.subID)
	n.loop.changed()
}
