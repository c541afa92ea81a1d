package config

import (
	"fmt"
	"slices"

	"achbridge/bridge/rule"
	"achbridge/bridge/via"
	"achbridge/discovery"
)

// listedPeer parses an entry of peers, HOST[:PORT][,transport=MODE]. own is the transport of
// this node.
func listedPeer(text string, own via.Kind) (discovery.Static, error) {
	address, settings := rule.Split(text)
	peer, err := discovery.ParseStatic(address)
	if err != nil {
		return peer, err
	}
	for _, option := range settings {
		if option.Key != "transport" {
			return peer, fmt.Errorf("%q: want no option but transport=auto, quic or sctp after the address", text)
		}
		mode, err := via.Parse(option.Value)
		if err != nil {
			return peer, fmt.Errorf("%q: transport %w", text, err)
		}
		if mode != via.Any && own != via.Any && own != mode {
			return peer, fmt.Errorf("%q: this node uses %s only: give it --transport=auto, or leave transport=%s out", text, own, mode)
		}
		peer.Transport = string(mode)
	}
	return peer, nil
}

// checkListed returns an error if a peer is listed with two transports.
func checkListed(peers []discovery.Static) error {
	for i, p := range peers {
		same := func(o discovery.Static) bool { return o.String() == p.String() && o.Transport != p.Transport }
		if first := slices.IndexFunc(peers[:i], same); first >= 0 {
			return fmt.Errorf("peers[%d] %q: peers[%d] lists the same peer with another transport: leave one out", i, p, first)
		}
	}
	return nil
}
