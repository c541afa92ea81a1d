package status

import "achbridge/bridge/via"

// Way says how frames come or go. Its JSON is any text, as that of a state.
type Way string

// The ways between two hosts.
const (
	wayDirect Way = "direct"
	WayHub    Way = "hub" // put at a hub once, and pulled there by each reader
)

// AtHub is the one address of a peer that is known at the hub alone.
const AtHub = string(WayHub)

// WayOver is the way of a link that runs over that protocol.
func WayOver(kind via.Kind) Way {
	if kind == via.Hub {
		return WayHub
	}
	return wayDirect
}
