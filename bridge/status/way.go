package status

import "achbridge/bridge/via"

// Way is the route of frames between two hosts. Unknown JSON values are kept, like those of states.
type Way string

// Routes between two hosts.
const (
	wayDirect Way = "direct"
	WayHub    Way = "hub" // put once at a hub, and fetched there by each reader
)

// AtHub is the only address of a peer that is known only at the hub.
const AtHub = string(WayHub)

// WayOver returns the route of a link with transport kind.
func WayOver(kind via.Kind) Way {
	if kind == via.Hub {
		return WayHub
	}
	return wayDirect
}
