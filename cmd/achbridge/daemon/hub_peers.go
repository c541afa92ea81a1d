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

// wayOut is this host's way through a hub.
type wayOut interface {
	hubway.Hub
	// Run keeps this host connected to the hub until ctx ends.
	Run(ctx context.Context) error
	// Hosts calls f with the names of the other hosts there, now and whenever they change.
	Hosts(ctx context.Context, f func(hosts []string)) error
	report() *api.Hub
}

// CheckHub reports what is wrong with the credentials that a configuration names.
func CheckHub(c *config.Config) error {
	_, err := openHub(c, nil)
	return err
}

// hubFound gives the node the hosts that are at the hub.
func (d *Daemon) hubFound(hosts []string) {
	d.network.mu.Lock()
	d.network.atHub = slices.Clone(hosts)
	d.network.mu.Unlock()
	d.dial()
}

// hubHosts are the hosts at the hub.
func (d *Daemon) hubHosts() []string {
	d.network.mu.Lock()
	defer d.network.mu.Unlock()
	return d.network.atHub // never changed, only replaced
}

// hubPeers are the hosts at the hub, for the node.
func (d *Daemon) hubPeers() []bridge.Peer {
	var peers []bridge.Peer
	for _, host := range d.hubHosts() {
		peers = append(peers, bridge.Peer{Host: host, Source: "hub", Hub: true})
	}
	return peers
}

// hubReport tells how it stands with the hub; nil without one.
func (d *Daemon) hubReport() *api.Hub {
	if d.hub == nil {
		return nil
	}
	return d.hub.report()
}

// hubTrouble is why the hub is not reached; "" if it is, or none is used.
func hubTrouble(h *api.Hub) string {
	if h == nil || h.Connected {
		return ""
	}
	return cmp.Or(h.Error, "there is no connection to "+h.Address+" yet")
}
