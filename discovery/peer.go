package discovery

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"
)

// Defaults and limits of announcements.
const (
	// DefaultPort is the UDP port of QUIC of a static peer without a port.
	DefaultPort = 8076
	// defaultLifetime is how long a host is listed after its last announcement.
	defaultLifetime = 60 * time.Second

	// minLifetime and maxLifetime are the limits of the lifetime of an announcement, and of the TTL of a zone.
	minLifetime = time.Second
	maxLifetime = time.Hour
)

// Sources of a Peer.
const (
	sourceMDNS   = "mdns"
	SourceStatic = "static"
	sourceDNS    = "dns-sd"
)

// Channel is one channel that a host offers. FrameSize is in bytes.
type Channel struct {
	Name                  string
	FrameCount, FrameSize int
}

// Peer is one node as an announcement, a zone or the user describes it. It is only a hint, since nothing in it is
// authenticated: the link's certificate proves which node answers. Several peers may claim the same name or node id.
type Peer struct {
	// Host is the host's name, which is valid in a mirror's name. For a static peer the user chose it.
	Host string
	// Node is the node id, 32 hex digits. It is empty for a static peer without an announcement, and for a peer of a
	// Domain whose zone does not have it.
	Node string
	// Network is the key's network, 8 hex digits, or empty if unknown.
	Network string
	// Addrs are the UDP addresses that may be dialled, best first.
	Addrs []netip.AddrPort
	// Far are announced addresses that must not be dialled, since they are neither the source of the announcement nor in
	// a subnet of this host. Announcements that a reflector between networks passes on have such addresses.
	Far []netip.AddrPort
	// By is the source of the announcement and lastReceivedAt the time of the last one. Listed peers have neither.
	By             netip.Addr
	lastReceivedAt time.Time
	// Port is the port of the announced addresses, or 0 if there was no announcement.
	Port uint16
	// Ports are the announced ports of the node's transports, at the addresses with Port.
	Ports Ports
	// Transport is Static.Transport, for a listed peer.
	Transport string
	// lifetime is how long to list the peer after its last announcement, at most two minutes; 0 for listed peers.
	lifetime time.Duration
	// Channels are the announced channels, sorted by name. A link gets the full catalog.
	Channels []Channel
	// More is the number of channels that the announcement omits.
	More int
	// Source is sourceMDNS for an announced peer, sourceDNS for a peer of a Domain, or SourceStatic for a peer of the
	// user's list, which never leaves the table.
	Source string
}

// Ports are UDP ports by transport. 0 means that the node does not listen on that transport. The zero Ports means that the
// ports are unknown.
type Ports struct{ QUIC, SCTP uint16 }

// keyQUIC and keySCTP are the keys of Ports in a TXT record.
const (
	keyQUIC = "quic"
	keySCTP = "sctp"
)

var errOnePort = errors.New("quic and sctp at one port")

func (p Ports) check() error {
	if p.QUIC == p.SCTP && p.QUIC != 0 {
		return errOnePort
	}
	return nil
}

// Config configures Announcer, Browser and Browse. The zero value browses on every interface.
type Config struct {
	// Self is this node. An Announcer announces its Host, Node, Network, Ports, Channels and More. A Browser ignores
	// announcements of its Node. Addrs, Port, Transport and Source are ignored.
	Self Peer
	// Port is the UDP port to announce.
	Port int
	// Interfaces limits multicast to these names. Empty means all interfaces that are up and support multicast.
	Interfaces []string
	// Static are peers that are found without multicast; ParseStatic returns them.
	Static []Static
	// Domains are DNS domains whose zones list hosts, also without multicast.
	Domains []Domain
	// StaticOnly switches multicast off: a Browser then opens no multicast socket and sends no query.
	StaticOnly bool
	// Log receives messages for operators. nil discards them.
	Log *slog.Logger
}

// checkBrowse returns an error with all problems in the fields that a Browser uses.
func (c Config) checkBrowse() error {
	var errs []error
	for i, name := range c.Interfaces {
		if name == "" {
			errs = append(errs, fmt.Errorf("discovery.interfaces[%d]: empty: give an interface's name such as eth0", i))
		}
	}
	return errors.Join(errs...)
}

// checkAnnounce returns an error with all problems in the fields that an Announcer uses.
func (c Config) checkAnnounce() error {
	errs := []error{c.checkBrowse()}
	if err := checkName(c.Self.Host); err != nil {
		errs = append(errs, fmt.Errorf("host name %q: %w (discovery.HostName makes a good one)", c.Self.Host, err))
	}
	if !isHex(c.Self.Node, 32) {
		errs = append(errs, fmt.Errorf("node id %q: not 32 lower-case hex digits", c.Self.Node))
	}
	if !isHex(c.Self.Network, 8) {
		errs = append(errs, fmt.Errorf("network %q: not 8 lower-case hex digits", c.Self.Network))
	}
	if c.Port < 1 || c.Port > 65535 {
		errs = append(errs, fmt.Errorf("port %d: not between 1 and 65535", c.Port))
	}
	if l := c.Self.lifetime; l != 0 && (l < minLifetime || l > maxLifetime || l%time.Second != 0) {
		errs = append(errs, fmt.Errorf("life %v: not whole seconds between %v and %v", l, minLifetime, maxLifetime))
	}
	errs = append(errs, c.Self.Ports.check())
	if c.Self.More < 0 {
		errs = append(errs, fmt.Errorf("more %d: less than 0", c.Self.More))
	}
	return errors.Join(errs...)
}

func (c Config) logger() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}
