package discovery

import (
	"errors"
	"net"
	"slices"

	"golang.org/x/sys/unix"
)

// sockets holds the sockets of one family that receive the mDNS group. Most hosts need one socket. Linux lets a socket join
// 20 IPv4 groups (net.ipv4.igmp_max_memberships) and counts each interface, so a host with many Docker networks needs more.
// Only one socket joins the group on each interface, so that no packet is received twice. sockets is for one goroutine.
type sockets struct {
	family family
	list   []*socket
	read   func(*socket) // called for a new socket, to start a goroutine that reads it
}

// join joins the group on an interface unless one of the sockets has joined it. It opens another socket if needed.
func (g *sockets) join(i net.Interface) error {
	if slices.ContainsFunc(g.list, func(s *socket) bool { return s.joined[i.Index] }) {
		return nil
	}
	for _, s := range g.list {
		if err := s.join(i); !errors.Is(err, unix.ENOBUFS) {
			return err
		}
	}
	s, err := openSocket(g.family)
	if err != nil {
		return err
	}
	err = s.join(i)
	if err != nil && len(g.list) > 0 {
		s.Close()
		return err
	}
	g.list = append(g.list, s) // keep the first socket even if join failed: queries are sent from it
	g.read(s)
	return err
}

// retain leaves the group on all interfaces that are not in links. Linux counts memberships of removed interfaces too.
func (g *sockets) retain(links []link) {
	for _, s := range g.list {
		for index := range s.joined {
			if !slices.ContainsFunc(links, func(l link) bool { return l.iface.Index == index }) {
				s.leaveGroup(index)
			}
		}
	}
}

// drop closes and removes a socket that can no longer be read.
func (g *sockets) drop(s *socket) {
	s.Close()
	g.list = slices.DeleteFunc(g.list, func(o *socket) bool { return o == s })
}

func (g *sockets) close() {
	for _, s := range g.list {
		s.Close()
	}
}
