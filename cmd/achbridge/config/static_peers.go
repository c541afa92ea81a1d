package config

import (
	"fmt"
	"slices"
	"strings"

	"achbridge/discovery"
)

// listedPeer reads an entry of the list of peers, HOST[:PORT][,transport=MODE], of
// a node with the transports of own.
func listedPeer(text string, own TransportMode) (discovery.Static, error) {
	address, options, more := strings.Cut(text, ",")
	peer, err := discovery.ParseStatic(address)
	if err != nil {
		return peer, err
	}
	for more {
		var option string
		option, options, more = strings.Cut(options, ",")
		key, value, _ := strings.Cut(option, "=")
		if key != "transport" {
			return peer, fmt.Errorf("%q: option %q: want transport=auto, quic or sctp behind the address", text, option)
		}
		var mode TransportMode
		if err := mode.Set(value); err != nil {
			return peer, fmt.Errorf("%q: transport %w", text, err)
		}
		if mode != TransportAuto && own != TransportAuto && own != mode {
			return peer, fmt.Errorf("%q: this node is to run over %s alone: give it --transport=auto, or leave transport=%s out", text, own, mode)
		}
		if peer.Transport = ""; mode != TransportAuto {
			peer.Transport = mode.String()
		}
	}
	return peer, nil
}

// checkListed refuses one peer listed with two transports.
func checkListed(peers []discovery.Static) error {
	for i, p := range peers {
		same := func(o discovery.Static) bool { return o.String() == p.String() && o.Transport != p.Transport }
		if first := slices.IndexFunc(peers[:i], same); first >= 0 {
			return fmt.Errorf("peers[%d] %q: listed with another transport as peers[%d]: leave one out", i, p, first)
		}
	}
	return nil
}
