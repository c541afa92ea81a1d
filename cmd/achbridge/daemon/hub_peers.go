package daemon

import (
	"cmp"
	"context"
	"slices"

	"achbridge/bridge"
	"achbridge/bridge/hubway"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
)

// wayOut is this host's client of a hub, as the daemon uses it. Package daemon has this interface
// so that it can be built without the hub (tag nohub).
type wayOut interface {
	hubway.Hub
	// Run keeps this host connected to the hub until ctx ends.
	Run(ctx context.Context) error
	// Hosts calls f with the names of the other hosts at the hub, at once and after each change.
	Hosts(ctx context.Context, f func(hosts []string)) error
	report() *api.Hub
}

// CheckHub returns an error if the credentials that a configuration names cannot be used.
func CheckHub(c *config.Config) error {
	_, err := openHub(c, nil)
	return err
}

// hubFound stores the hosts at the hub and passes them to the node.
func (d *Daemon) hubFound(hosts []string) {
	d.network.mu.Lock()
	d.network.atHub = slices.Clone(hosts)
	d.network.mu.Unlock()
	d.dial()
}

// hubHosts returns the hosts at the hub. The caller must not change the slice.
func (d *Daemon) hubHosts() []string {
	d.network.mu.Lock()
	defer d.network.mu.Unlock()
	return d.network.atHub // never changed, only replaced
}

// hubPeers returns the hosts at the hub as peers of the node.
func (d *Daemon) hubPeers() []bridge.Peer {
	var peers []bridge.Peer
	for _, host := range d.hubHosts() {
		peers = append(peers, bridge.Peer{Host: host, Source: "hub", Hub: true})
	}
	return peers
}

// hubReport returns the state of the connection to the hub, or nil if no hub is used.
func (d *Daemon) hubReport() *api.Hub {
	if d.hub == nil {
		return nil
	}
	return d.hub.report()
}

// hubProblem returns the reason why the hub is not connected. It returns "" if the hub is
// connected or none is used.
func hubProblem(h *api.Hub) string {
	if h == nil || h.Connected {
		return ""
	}
	return cmp.Or(h.Error, "there is no connection to "+h.Address+" yet")
}
