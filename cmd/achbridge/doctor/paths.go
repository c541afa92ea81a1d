package doctor

import (
	"context"
	"fmt"
	"net"
	"strings"

	"achbridge/bridge/via"
)

const (
	quicPath = 1280 // size of the IP packets that QUIC needs, in bytes
	quicLoad = 1195 // size in bytes of the largest datagram of a link in such a packet
	headers  = 28   // size in bytes of the headers of IPv4 and UDP, the least that a path adds to a datagram
)

// iface is a network interface that has IP addresses.
type iface struct {
	name string
	mtu  int
}

// path is the path of a direct link.
type path struct {
	peer  string
	over  via.Kind
	bytes int    // size of the largest datagram, as the link has measured it
	iface string // name of the interface by which the packets leave, "" if unknown
}

// checkPaths checks whether packets are large enough: on the paths to peers, as the daemon's links have measured them, and on
// interfaces that no link uses.
func checkPaths(_ context.Context, p *patient) result {
	interfaces, err := net.Interfaces()
	if err != nil {
		return result{State: doubt, Text: err.Error(), Fix: "ip link"}
	}
	var ifaces []iface
	addrs := map[string]string{} // names of interfaces, by their addresses
	for _, i := range interfaces {
		list, err := i.Addrs()
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || err != nil || len(list) == 0 {
			continue // an interface without an address, such as that of a CAN bus, carries no IP packets
		}
		ifaces = append(ifaces, iface{i.Name, i.MTU})
		for _, a := range list {
			if ip, ok := a.(*net.IPNet); ok {
				addrs[ip.IP.String()] = i.Name
			}
		}
	}
	var paths []path
	if p.daemon != nil {
		for _, l := range p.daemon.Links {
			if l.DatagramBytes > 0 { // a link through the hub has no datagrams
				paths = append(paths, path{l.Peer, l.Transport, l.DatagramBytes, addrs[localAddr(l.Addr)]})
			}
		}
	}
	return judgePaths(ifaces, paths)
}

// localAddr returns the IP address of this host from which the kernel sends packets to a UDP address, "" if there is no route.
func localAddr(to string) string {
	conn, err := net.Dial("udp", to) // sends nothing
	if err != nil {
		return ""
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP.String()
}

// judgePaths judges the path of each link by its measured datagram size, and each interface without a link by its MTU.
func judgePaths(ifaces []iface, paths []path) result {
	r := result{State: fit}
	var list []string
	used, mtus := map[string]bool{}, map[string]int{}
	for _, l := range paths {
		used[l.iface] = true
	}
	for _, i := range ifaces {
		list, mtus[i.name] = append(list, fmt.Sprintf("%s carries %d bytes", i.name, i.mtu)), i.mtu
		if i.mtu >= quicPath || used[i.name] {
			continue
		}
		state := failing
		if len(paths) > 0 {
			state = doubt // this host has other interfaces that reach peers
		}
		r.worsen(state, enlarge(i.name)+"; or transport: sctp on both hosts")
	}
	for _, l := range paths {
		list = append(list, fmt.Sprintf("to %s %d in a datagram over %s", l.peer, l.bytes, l.over))
		mtu, ok := mtus[l.iface]
		switch {
		case ok && mtu < l.bytes+headers: // the interface was made smaller after the link had measured
			r.worsen(failing, enlarge(l.iface))
		case l.bytes >= quicLoad/2:
		case ok && mtu < quicPath:
			r.worsen(doubt, enlarge(l.iface))
		default:
			r.worsen(doubt, "run tracepath to find the part of the path to "+l.peer+" that carries less than 1280 bytes")
		}
	}
	if r.Text = strings.Join(list, "; "); r.Text == "" {
		return result{State: failing, Text: "no network interface is up but the loopback", Fix: "ip link"}
	}
	return r
}

// enlarge returns the fix for an interface whose MTU is too small.
func enlarge(name string) string { return fmt.Sprintf("ip link set %s mtu 1500", name) }
