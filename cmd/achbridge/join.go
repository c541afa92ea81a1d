package main

import (
	"net"
	"net/netip"
	"slices"

	"achbridge/bridge"
	"achbridge/bridge/transport"
	"achbridge/discovery"
)

// Discovery and the bridge do not know each other; here the words of one are
// put into those of the other.

// membership is who we are among the peers: a node of one network, or of two while
// its key is being changed.
type membership struct {
	node     string
	networks []string
}

// dialable are the peers of our networks, without ourselves.
func dialable(found []discovery.Peer, self membership) []bridge.Peer {
	var peers []bridge.Peer
	for _, p := range members(found, self) {
		addrs := make([]transport.Addrs, len(p.Addrs))
		for i, addr := range p.Addrs {
			addrs[i] = addrsAt(p, addr)
		}
		peers = append(peers, bridge.Peer{
			Host: p.Host, Node: p.Node, Addrs: addrs, Static: p.Source == discovery.SourceStatic, Over: p.Transport,
		})
	}
	return peers
}

// addrsAt is where p listens, or may, if found at addr.
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

// members are the peers of self's networks but self. Peers that do not tell
// their network, as static ones, are taken for members: the link will tell.
// Without a network of its own self takes everybody.
func members(found []discovery.Peer, self membership) []discovery.Peer {
	return slices.DeleteFunc(slices.Clone(found), func(p discovery.Peer) bool {
		return strange(p, self) || p.Node != "" && p.Node == self.node
	})
}

// strangers are the peers that say that they belong to another network.
func strangers(found []discovery.Peer, self membership) []discovery.Peer {
	return slices.DeleteFunc(slices.Clone(found), func(p discovery.Peer) bool {
		return !strange(p, self)
	})
}

func strange(p discovery.Peer, self membership) bool {
	return p.Network != "" && len(self.networks) > 0 && !slices.Contains(self.networks, p.Network)
}

// announcedChannels are the channels that peers announce.
func announcedChannels(peers []discovery.Peer) []bridge.RemoteChannel {
	var list []bridge.RemoteChannel
	for _, p := range peers {
		addrs := announcedAddrs(p)
		for _, c := range p.Channels {
			list = append(list, bridge.RemoteChannel{
				Host: p.Host, Channel: c.Name, FrameCount: c.FrameCount, FrameSize: c.FrameSize,
				Node: p.Node, Addrs: addrs,
			})
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

// announce are the channels to tell the network about.
func announce(exported []bridge.LocalStatus) []discovery.Channel {
	list := make([]discovery.Channel, len(exported))
	for i, c := range exported {
		list[i] = discovery.Channel{Name: c.Channel, FrameCount: c.FrameCount, FrameSize: c.FrameSize}
	}
	return list
}
