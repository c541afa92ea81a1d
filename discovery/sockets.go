package discovery

import (
	"errors"
	"net"
	"slices"

	"golang.org/x/sys/unix"
)

// sockets are the sockets of one family that receive the mDNS group. Most hosts need one. Linux lets a socket join 20 groups of IPv4
// (net.ipv4.igmp_max_memberships) and counts each interface, so a host with many Docker networks needs more. Each interface is
// joined by one of them, so no packet is received twice. It is for one goroutine.
type sockets struct {
	family family
	list   []*socket
	read   func(*socket) // starts to read a socket that was opened
}

// join receives the group on an interface from now on. It is no error if one of the sockets does so already.
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
	g.list = append(g.list, s) // the first one also if it can only send
	g.read(s)
	return err
}

// retain ends the memberships on all interfaces but those of links. Linux counts them also when the interface is gone.
func (g *sockets) retain(links []link) {
	for _, s := range g.list {
		for index := range s.joined {
			if !slices.ContainsFunc(links, func(l link) bool { return l.iface.Index == index }) {
				s.leaveGroup(index)
			}
		}
	}
}

// drop closes a socket that cannot be read any more.
func (g *sockets) drop(s *socket) {
	s.Close()
	g.list = slices.DeleteFunc(g.list, func(o *socket) bool { return o == s })
}

func (g *sockets) close() {
	for _, s := range g.list {
		s.Close()
	}
}
