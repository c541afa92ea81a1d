package bridge

import (
	"context"
	"net/netip"

	"achbridge/bridge/achdway"
	"achbridge/bridge/peers"
	"achbridge/bridge/rule"
)

// newAchdHosts returns the clients of hosts that run achd without achbridge.
func (n *Node) newAchdHosts(ctx context.Context) *achdway.Hosts {
	return achdway.NewHosts(ctx, achdway.Config{
		Dir: n.cfg.Dir, Source: n.cfg.Source, Dial: n.cfg.testing.dialAchd, Log: n.cfg.Log, Now: n.now,
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
