package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"achbridge/bridge/achd"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/service"
	"achbridge/cmd/achbridge/ui"
	"achbridge/discovery"
)

// listenAchd returns the listener for achd clients: the socket achd that systemd passed, otherwise a new one at address. It returns
// nil if address is empty, that is, if achd's protocol is off.
func listenAchd(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	if ln, err := service.Passed("achd"); ln != nil || err != nil {
		return ln, err
	}
	ln, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, ui.Failure(fmt.Errorf("achd %s: the TCP port is in use, perhaps by achd itself or by inetd", address), "stop that one, or take another port: --achd :PORT")
	}
	if err != nil {
		return nil, ui.Failure(fmt.Errorf("achd %s: %w", address, errors.Unwrap(err)), "--achd :PORT")
	}
	return ln, nil
}

func achdRules(c *config.Config) achd.Rules {
	return achd.Rules{From: c.AchdNetworks, Channels: c.AchdChannels, Accept: c.AchdAccept}
}

// newAchd returns the server for achd clients, or nil if achd's protocol is off.
func (d *Daemon) newAchd(c *config.Config, newData achd.NewData) *achd.Server {
	if d.ports.achd == nil {
		return nil
	}
	s := achd.New(achd.Config{Dir: d.dir, NewData: newData, Command: d.node.CarriesCommands, Claim: d.node.Claim, Source: d.node.AchdSource, Log: d.log})
	s.SetRules(achdRules(c))
	return s
}

// serveAchd serves achd clients until ctx ends. It first logs a warning that achd's protocol has no security.
func (d *Daemon) serveAchd(ctx context.Context) error {
	d.log.Warn("achd protocol enabled without authentication or encryption, any program at an address in from can read and write these channels",
		"listen", d.ports.achd.Addr().String(), "from", d.config().AchdFrom, "channels", d.config().AchdChannels, "accept", d.config().AchdAccept)
	if achdRules(d.config()).Empty() {
		d.log.Warn("achd serves nothing, the section achd of the configuration has no hosts (from) or no channels (channels, accept)")
	}
	return d.achd.Run(ctx, d.ports.achd)
}

// answerAchd answers achd clients that search for a channel by multicast, until ctx ends. A client learns only the
// channels that its host may use. If discovery is off, answerAchd returns at once.
func (d *Daemon) answerAchd(ctx context.Context) error {
	at, ok := d.ports.achd.Addr().(*net.TCPAddr)
	if !ok || !bool(d.config().Discovery) {
		return nil
	}
	return discovery.AchdSearch{Interfaces: d.config().Interfaces, Listen: at.AddrPort(), Serves: d.achd.Serves, Log: d.log}.Run(ctx)
}

// dialAchd returns a function that connects to hosts with achd by dial. It replaces mDNS names by the addresses that addrOf returns.
// It passes other names to dial unchanged, which asks the system's resolver.
func dialAchd(addrOf func(context.Context, string) (netip.Addr, bool), dial achd.Dial) achd.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, port, err := net.SplitHostPort(address); err == nil {
			if addr, ok := addrOf(ctx, host); ok {
				address = net.JoinHostPort(addr.String(), port)
			}
		}
		return dial(ctx, network, address)
	}
}

// achdReport returns the achd section of the status, or nil if achd's protocol is off.
func (d *Daemon) achdReport() *api.Achd {
	if d.achd == nil {
		return nil
	}
	r := d.achd.Report()
	a := &api.Achd{Listen: d.ports.achd.Addr().String(), Clients: []api.AchdClient{}, Waiting: r.Waiting, Frames: r.Frames, Refused: r.Refused}
	for _, c := range r.Clients {
		a.Clients = append(a.Clients, api.AchdClient{Addr: c.Addr.String(), Channel: c.Channel, Transport: c.Transport, Writes: c.Writes, Frames: c.Frames})
	}
	return a
}
