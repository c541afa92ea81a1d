package daemon

import (
	"net"
	"net/netip"
	"slices"

	"achbridge/bridge"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/via"
	"achbridge/discovery"
)

// This file converts between the types of packages discovery and bridge, which do not
// import each other.

// Membership holds this host's node id and its networks: one, or two during a key
// change.
type Membership struct {
	node     string
	Networks []string
}

// dialable returns the peers of our networks that may be dialled, without this host.
// found has one entry for each source, before discovery.Hosts merges them.
func dialable(found []discovery.Peer, self Membership) []bridge.Peer {
	var peers []bridge.Peer
	for _, p := range Members(found, self) {
		if len(p.Addrs) == 0 && p.By.IsValid() {
			continue
		}
		addrs := make([]transport.Addrs, len(p.Addrs))
		for i, addr := range p.Addrs {
			addrs[i] = addrsAt(p, addr)
		}
		peers = append(peers, bridge.Peer{
			Host: p.Host, Node: p.Node, Addrs: addrs, Static: p.Source == discovery.SourceStatic, Source: sourceText(p), Over: via.Kind(p.Transport),
		})
	}
	return peers
}

// sourceText returns the address of the host that announced p, or "" if none did.
func sourceText(p discovery.Peer) string {
	if !p.By.IsValid() {
		return ""
	}
	return p.By.String()
}

// addrsAt returns the addresses at which p listens, or may listen, if its address is addr.
func addrsAt(p discovery.Peer, addr netip.AddrPort) transport.Addrs {
	if p.Ports == (discovery.Ports{}) || p.Port != addr.Port() {
		return bothOf(net.UDPAddrFromAddrPort(addr))
	}
	var a transport.Addrs
	if port := p.Ports.QUIC; port != 0 {
		a.QUIC = net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr.Addr(), port))
	}
	if port := p.Ports.SCTP; port != 0 {
		a.SCTP = net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr.Addr(), port))
	}
	return a
}

// Members returns the peers in self's networks, without self. A peer whose network is
// unknown, such as a listed one, counts as a member: the handshake checks it later. If
// self has no network, all peers count.
func Members(found []discovery.Peer, self Membership) []discovery.Peer {
	return slices.DeleteFunc(slices.Clone(found), func(p discovery.Peer) bool {
		return strange(p, self) || p.Node != "" && p.Node == self.node
	})
}

// UnknownPeers returns the peers that announce another network than self's.
func UnknownPeers(found []discovery.Peer, self Membership) []discovery.Peer {
	return slices.DeleteFunc(slices.Clone(found), func(p discovery.Peer) bool {
		return !strange(p, self)
	})
}

func strange(p discovery.Peer, self Membership) bool {
	return p.Network != "" && len(self.Networks) > 0 && !slices.Contains(self.Networks, p.Network)
}

// AnnouncedChannels returns the channels that peers announce.
func AnnouncedChannels(peers []discovery.Peer) []status.RemoteChannel {
	var list []status.RemoteChannel
	for _, p := range peers {
		addrs := announcedAddrs(p)
		for _, c := range p.Channels {
			list = append(list, status.RemoteChannel{
				Host: p.Host, Channel: c.Name, FrameCount: c.FrameCount, FrameSize: c.FrameSize,
				Node: p.Node, Addrs: addrs,
			})
		}
	}
	return list
}

// asProved corrects the host names of announced channels. names maps node ids to the host
// names that the nodes proved on a link. A channel that another node announces under a
// proved name is marked as unproved. Duplicates are removed.
func asProved(announced []status.RemoteChannel, names map[string]string) []status.RemoteChannel {
	holders := map[string]bool{}
	for _, name := range names {
		holders[name] = true
	}
	var list []status.RemoteChannel
	for _, c := range announced {
		if name, ok := names[c.Node]; ok {
			c.Host = name
		} else if holders[c.Host] {
			c.Unproved = true
		}
		same := func(o status.RemoteChannel) bool {
			return o.Node == c.Node && o.Host == c.Host && o.Channel == c.Channel
		}
		if !slices.ContainsFunc(list, same) {
			list = append(list, c)
		}
	}
	return list
}

func announcedAddrs(p discovery.Peer) []string {
	addrs := make([]string, len(p.Addrs))
	for i, addr := range p.Addrs {
		addrs[i] = addrsAt(p, addr).String()
	}
	return addrs
}

// announce returns the channels to announce on the network.
func announce(exported []status.Local) []discovery.Channel {
	list := make([]discovery.Channel, len(exported))
	for i, c := range exported {
		list[i] = discovery.Channel{Name: c.Channel, FrameCount: c.FrameCount, FrameSize: c.FrameSize}
	}
	return list
}
