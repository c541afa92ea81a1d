package main

import (
	"net"
	"slices"

	"achbridge/bridge"
	"achbridge/bridge/transport"
	"achbridge/discovery"
)

// Discovery and the bridge do not know each other; here the words of one are
// put into those of the other.

// dialable are the peers of our network, without ourselves.
func dialable(found []discovery.Peer, self discovery.Peer) []bridge.Peer {
	var peers []bridge.Peer
	for _, p := range members(found, self) {
		addrs := make([]transport.Addrs, len(p.Addrs))
		for i, addr := range p.Addrs {
			addrs[i] = bothOf(net.UDPAddrFromAddrPort(addr))
		}
		peers = append(peers, bridge.Peer{Host: p.Host, Node: p.Node, Addrs: addrs, Static: p.Source == discovery.SourceStatic})
	}
	return peers
}

// members are the peers of self's network but self. Peers that do not tell
// their network, as static ones, are taken for members: the link will tell.
// An empty network of self takes everybody.
func members(found []discovery.Peer, self discovery.Peer) []discovery.Peer {
	return slices.DeleteFunc(slices.Clone(found), func(p discovery.Peer) bool {
		return strange(p, self) || p.Node != "" && p.Node == self.Node
	})
}

// strangers are the peers that say that they belong to another network.
func strangers(found []discovery.Peer, self discovery.Peer) []discovery.Peer {
	return slices.DeleteFunc(slices.Clone(found), func(p discovery.Peer) bool {
		return !strange(p, self)
	})
}

func strange(p, self discovery.Peer) bool {
	return p.Network != "" && self.Network != "" && p.Network != self.Network
}

// announcedChannels are the channels that peers announce.
func announcedChannels(peers []discovery.Peer) []bridge.RemoteChannel {
	var list []bridge.RemoteChannel
	for _, p := range peers {
		addrs := make([]string, len(p.Addrs))
		for i, addr := range p.Addrs {
			addrs[i] = addr.String()
		}
		for _, c := range p.Channels {
			list = append(list, bridge.RemoteChannel{
				Host: p.Host, Channel: c.Name, FrameCount: c.FrameCount, FrameSize: c.FrameSize,
				Node: p.Node, Addrs: addrs,
			})
		}
	}
	return list
}

// announce are the channels to tell the network about.
func announce(exported []bridge.LocalStatus) []discovery.Channel {
	list := make([]discovery.Channel, len(exported))
	for i, c := range exported {
		list[i] = discovery.Channel{Name: c.Channel, FrameCount: c.FrameCount, FrameSize: c.FrameSize}
	}
	return list
}
