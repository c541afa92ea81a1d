package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"achbridge/bridge/achdway"
	"achbridge/bridge/mirror"
	"achbridge/bridge/peers"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// MirrorRequest returns the request because of which the node mirrors a channel of a host: a rule, a
// request of the API, or a push. ok is false if there is no request, or if a rule denies the
// channel.
func (n *Node) MirrorRequest(host, channel string) (w rule.Mirror, ok bool) {
	n.loop.ask(func() { w, ok = n.requests.find(host, channel) })
	return w, ok
}

// pushed returns the requests that pushes of peers have made here.
func (n *Node) pushed() []rule.Mirror {
	var list []rule.Mirror
	for _, l := range n.links {
		for _, p := range l.offers.accepted {
			list = append(list, p.Mirror)
		}
	}
	return list
}

// Mirror adds a request. Channels that match it are mirrored as soon as a peer offers them. It
// takes precedence over an equal request of the configuration, and replaces an earlier request for
// the same host and channel. Running mirrors get the new QoS without a gap before Mirror returns.
// A mirror with a new name replaces the one with the old name. It is an error if the configuration
// denies the request.
func (n *Node) Mirror(m rule.Mirror) error {
	if err := m.Check(); err != nil {
		return err
	}
	return n.loop.change(func() error { return n.requests.add(m) })
}

// FilePolicy decides whether a mirror's file stays when the mirror ends.
type FilePolicy int

// The policies of Unmirror for the mirrors' files.
const (
	Keep FilePolicy = iota
	Remove
)

// Unmirror removes a request and ends its mirrors. Their files stay, unless policy is Remove.
func (n *Node) Unmirror(m rule.Mirror, policy FilePolicy) error {
	return n.loop.change(func() error { return n.unmirror(m, policy) })
}

func (n *Node) unmirror(m rule.Mirror, policy FilePolicy) error {
	n.loop.changed() // a request of lower precedence may apply now
	if n.requests.remove(m) {
		return n.dropUnwanted(policy)
	}
	is := isRequestFor(m)
	for _, l := range n.links {
		if i := slices.IndexFunc(l.offers.accepted, func(p pushed) bool { return is(p.Mirror) }); i >= 0 {
			l.offers.accepted = slices.Delete(l.offers.accepted, i, i+1)
			return n.dropUnwanted(policy)
		}
	}
	return n.requests.whyNotRemoved(m)
}

// Forget ends the mirrors of a host that is gone for good, removes their files, and forgets the host's machine. If the host
// returns, it gets its mirrors again by the rules with patterns. removed has the names of the removed mirrors. Forget fails if the
// host is linked, if a rule or request names it without a pattern, or if the node does not know it (fs.ErrNotExist).
func (n *Node) Forget(host string) (removed []string, err error) {
	err = n.loop.change(func() error {
		removed, err = n.forget(host)
		return err
	})
	return removed, err
}

func (n *Node) forget(host string) (removed []string, err error) {
	if n.linkOf(host) != nil {
		return nil, fmt.Errorf("%s is linked; end its daemon first", host)
	}
	if w, ok := firstOf(n.requests.withPushed(), func(w rule.Mirror) bool { return w.Host == host }); ok {
		return nil, fmt.Errorf("%s names %s; remove that first", cmp.Or(w.From, "a request"), host)
	}
	var errs []error
	for _, m := range n.mirrors.byName {
		if m.Host == host {
			removed = append(removed, m.Name)
			errs = append(errs, n.endMirror(m, Remove))
		}
	}
	if known := n.machines.forget(host); !known && len(removed) == 0 {
		return nil, fmt.Errorf("no mirror of %s is known%.0w", host, fs.ErrNotExist)
	}
	slices.Sort(removed)
	n.cfg.Log.Info("host forgotten", "host", host, "mirrors", removed)
	return removed, errors.Join(errs...)
}

// forgetGone updates goneSince, and forgets the hosts that had no link for cfg.ForgetAfter, unless that is 0.
func (n *Node) forgetGone() {
	t := &n.mirrors
	for host := range t.perHost {
		since, gone := t.goneSince[host]
		switch {
		case n.linkOf(host) != nil || rule.IsAchd(host) || host == n.cfg.Host:
			delete(t.goneSince, host)
		case !gone:
			t.goneSince[host] = n.now()
		case n.cfg.ForgetAfter > 0 && n.now()-since >= n.cfg.ForgetAfter:
			t.goneSince[host] = n.now() // if forget fails, since a rule names the host, try again after the same time
			if _, err := n.forget(host); err != nil {
				n.cfg.Log.Debug("host not forgotten", "host", host, "err", err)
			}
		}
	}
	for host := range t.goneSince {
		if t.perHost[host] == 0 {
			delete(t.goneSince, host)
		}
	}
}

// lowest is the lowest priority, 0 for users.
const lowest rule.Priority = 1

// temporaryPrefix begins the names of temporary mirrors; a part of the node's id follows.
const temporaryPrefix = "peek-"

// isTemporary reports whether a channel is a temporary mirror, which is removed with its last viewer.
func isTemporary(channel string, tag localach.Tag) bool {
	return tag != (localach.Tag{}) && strings.HasPrefix(channel, temporaryPrefix)
}

// IsHelper reports whether the daemon made a channel only for its readers: a metadata channel or a temporary mirror. Recordings
// and viewers leave such channels out.
func IsHelper(channel string, tag localach.Tag) bool {
	_, isMetadata := mirror.MetaOf(channel, tag)
	return isMetadata || isTemporary(channel, tag)
}

// MirrorTemporarily makes a temporary mirror of a channel of another host, until end is called. Further calls
// of end do nothing. The error is the reason why there can be no such mirror.
func (n *Node) MirrorTemporarily(host, channel string) (end func(), err error) {
	w := rule.Mirror{Host: host, Channel: channel, QoS: rule.QoS{Priority: lowest, Budget: time.Hour}, From: "a viewer"}
	if rule.IsAchd(host) {
		w.QoS = rule.QoS{}
	}
	err = w.Check()
	if err == nil && (rule.IsPattern(host) || rule.IsPattern(channel)) {
		err = fmt.Errorf("%s/%s: want one channel, not a pattern", host, channel)
	}
	if err != nil {
		return nil, err
	}
	ran := n.loop.call(func() {
		if err = n.requests.addTemporary(w); err == nil {
			n.loop.changed()
		}
	})
	if !ran {
		err = errEnded
	}
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { n.loop.post(func() { n.requests.endTemporary(host, channel); n.loop.changed() }) }), nil
}

// sweepTemporary removes temporary mirrors with this prefix that a killed daemon has left behind.
func sweepTemporary(dir localach.Dir, prefix string) {
	list, err := dir.List()
	if err != nil {
		return // Source.Changes reports the error of the directory
	}
	for _, c := range list {
		if !strings.HasPrefix(c.Name, prefix) {
			continue
		}
		ch, err := dir.TryOpen(c.Name)
		if err != nil {
			continue
		}
		ours := ch.Tag() != (localach.Tag{})
		ch.Close()
		if ours {
			_ = dir.Unlink(c.Name)
		}
	}
}

// writerOf returns the host that feeds the mirror called name, or that will feed it as soon as it
// offers the channel. It returns "" if there is none. The given channel of the given host does not
// count.
func (n *Node) writerOf(name, host, channel string) string {
	if m := n.mirrors.byName[name]; m != nil && m.mux == nil && (m.Host != host || m.Channel != channel) {
		return m.Host
	}
	return n.requests.writer(name, host, channel)
}

// depose takes a command channel away from a writer whose link is silent and that has sent nothing
// within the deadline. A safe frame that is due is put first. depose returns true if another
// writer may write now.
func (n *Node) depose(name, by string) bool {
	m := n.mirrors.byName[name]
	if m == nil || m.link == nil || !m.link.isInSilence() || !m.Lost() {
		return false
	}
	l := m.link
	i := slices.IndexFunc(l.offers.accepted, func(p pushed) bool { return p.As == name })
	if i < 0 {
		return false // the writer was requested by this host, not by a push
	}
	offer := l.offers.accepted[i].offer.ID
	l.offers.accepted = slices.Delete(l.offers.accepted, i, i+1)
	n.cfg.Log.Warn("writer of a command channel replaced: it is silent past its deadline", "channel", name, "peer", m.Host, "by", by)
	l.send(wire.Refused{ID: offer, Re: wire.TypeOffer, Code: wire.CodeConflict,
		Text: wire.Text(fmt.Sprintf("%s is written by %s since %s was silent past its deadline", name, by, m.Host))})
	n.dropUnwanted(Keep)
	return n.mirrors.byName[name] == nil
}

// part keeps a mirror without a request until its safe frame has been put. Its writer is lost, but
// may return before the deadline.
func (m *binding) part() bool {
	if m.isStopping = m.NeedsLastValue(); !m.isStopping {
		return false
	}
	if m.link != nil {
		m.link.unsubscribe(m.subID)
		m.unbind(status.CauseRule, "its writer is gone; the safe frame follows at the deadline")
	}
	return true
}

// bindMirrors makes a mirror and a subscription for every channel that a peer offers and a request
// names or matches. It ends mirrors without a request.
func (n *Node) bindMirrors() {
	n.dropUnwanted(Keep)
	n.bindAchd()
	mirrored := n.mirrors.channels()
	for _, l := range n.links {
		named := n.requests.named(l.host)
		l.requestNamed(named)
		for _, c := range l.inTurn(named) {
			if l.warned.full && !named[c.Name] && !mirrored[[2]string{l.host, c.Name}] {
				continue
			}
			w, ok := n.requests.find(l.host, c.Name)
			exact := w.Host == l.host && w.Channel == c.Name
			if !ok || w.Merge && c.Origin != nil && !exact || c.Closed && !exact && !mirrored[[2]string{l.host, c.Name}] {
				continue // a refused channel gets a mirror, with the reason, only if a request names it
			}
			n.bind(l, c, w)
		}
	}
	for _, l := range n.links {
		l.endGone()
	}
	n.bindMerges()
}

// endGone ends the subscriptions to channels that the peer of l no longer offers.
func (l *link) endGone() {
	for id, in := range l.inbound {
		m := in.m
		if _, ok := l.catalog.remote.channels[m.Channel]; !ok {
			l.unsubscribe(id)
			m.unbind(status.CauseNoChannel, fmt.Sprintf("%s does not offer %s now", m.Host, m.Channel))
		}
	}
}

// newAchdHosts returns the clients of hosts that run achd without achbridge.
func (n *Node) newAchdHosts(ctx context.Context) *achdway.Hosts {
	return achdway.NewHosts(ctx, achdway.Config{
		Dir: n.cfg.Dir, Source: n.cfg.Source, Dial: n.cfg.DialAchd, Log: n.cfg.Log, Now: n.now,
		Backoff: func(ctx context.Context, failures int) { pause(ctx, peers.Backoff(failures, peers.LastBackoff)) }, Settled: settled,
		Spawn: n.loop.work.Go, Call: n.loop.call, MayPublish: n.mayPublishByAchd, Warn: n.warnings.warn,
	})
}

// bindAchd makes the requested mirrors of hosts with achd, and starts their consumers.
func (n *Node) bindAchd() {
	for _, asked := range n.requests.list() {
		if !rule.IsAchd(asked.Host) {
			continue
		}
		w, ok := n.requests.find(asked.Host, asked.Channel)
		name := w.Name(asked.Host, asked.Channel)
		if !ok || n.mirrors.reserved[name] {
			continue // the former mirror of this name has yet to put its safe frame, or another program writes the channel
		}
		m := n.mirrors.byName[name]
		switch {
		case m == nil && len(n.mirrors.byName) >= maxMirrors:
			continue
		case m == nil:
			m = n.mirrors.add(asked.Host, asked.Channel, w)
		case m.Host != asked.Host || m.Channel != asked.Channel:
			m.nameConflict(&n.warnings, rule.Address{Host: asked.Host, Channel: asked.Channel})
			continue
		}
		if m.achd == nil || !m.achd.Requalify(w.QoS) {
			m.achd = n.achd.Consume(m.Mirror, w.QoS, func() { n.localChanged(m.Name) })
		}
	}
}

// mayPublishByAchd returns an error if a channel may not be sent by achd's protocol.
func (n *Node) mayPublishByAchd(channel string) (err error) {
	if n.CarriesCommands(channel) {
		return achdway.ErrCommand
	}
	n.loop.call(func() {
		if m := n.mirrors.byName[channel]; n.mirrors.reserved[channel] || m != nil && m.achd != nil {
			err = achdway.ErrEcho
		}
	})
	return err
}

// AchdSource returns the address of the host that feeds a mirror by achd's protocol, or the zero
// address. That host must not read the mirror by the same protocol, or the frames would circulate
// between the two hosts.
func (n *Node) AchdSource(channel string) (from netip.Addr) {
	n.loop.call(func() {
		if m := n.mirrors.byName[channel]; m != nil {
			from = m.achd.From()
		}
	})
	return from
}
