package hub

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"achbridge/bridge/hub"
)

// unproved has the connections that have not proved to be a host's. A new one is never refused: when there are more than maxUnproved, the
// oldest one of the network with most of them is closed. So strangers in one network keep no host in another one out.
type unproved struct {
	mu       sync.Mutex
	conns    []unprovedConn // the oldest first
	networks map[netip.Prefix]*int
}

// unprovedConn is a connection, and the number of connections from its network.
type unprovedConn struct {
	net.Conn
	fromNetwork *int
}

// maxUnproved limits the memory that strangers use, which is some 30 KiB for each.
const maxUnproved = 4096

func (u *unproved) enter(conn net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.networks == nil {
		u.networks = map[netip.Prefix]*int{}
	}
	network := networkOf(conn)
	if u.networks[network] == nil {
		u.networks[network] = new(int)
	}
	*u.networks[network]++
	u.conns = append(u.conns, unprovedConn{conn, u.networks[network]})
	if len(u.conns) <= maxUnproved {
		return
	}
	first := 0
	for i, c := range u.conns {
		if *c.fromNetwork > *u.conns[first].fromNetwork {
			first = i
		}
	}
	u.conns[first].Close()
	u.remove(first)
}

func (u *unproved) leave(conn net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.IndexFunc(u.conns, func(c unprovedConn) bool { return c.Conn == conn }); i >= 0 {
		u.remove(i)
	}
}

// remove needs u.mu.
func (u *unproved) remove(i int) {
	c := u.conns[i]
	if *c.fromNetwork--; *c.fromNetwork == 0 {
		delete(u.networks, networkOf(c))
	}
	u.conns = slices.Delete(u.conns, i, i+1)
}

// networkOf returns the network at the other end of a connection: a /64 of IPv6 or a /24 of IPv4.
func networkOf(conn net.Conn) netip.Prefix {
	addr, bits := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap(), 64
	if addr.Is4() {
		bits = 24
	}
	network, _ := addr.Prefix(bits) // the bits are valid
	return network
}

// hostConn is a connection that has proved to be a host's.
type hostConn struct {
	conn    *tls.Conn
	in      *bufio.Reader // reads from conn
	name    string
	connect string // the CONNECT line for the server
}

// prove greets a connection, does the TLS handshake, and waits for the proof. Both must be over within tlsLimit each.
func (f *front) prove(conn net.Conn) (*hostConn, error) {
	nonce := rand.Text()
	if err := errors.Join(conn.SetDeadline(time.Now().Add(tlsLimit)), f.greet(conn, nonce)); err != nil {
		return nil, err
	}
	secure := tls.Server(conn, f.tls)
	if err := errors.Join(secure.Handshake(), conn.SetDeadline(time.Now().Add(tlsLimit))); err != nil {
		return nil, err
	}
	host := &hostConn{conn: secure, in: bufio.NewReaderSize(secure, frontBuffer)}
	line, err := readLine(host.in)
	if err == nil {
		host.name, host.connect, err = f.guard.admit(conn.RemoteAddr(), line, nonce)
	}
	refuse(secure, err)
	return host, errors.Join(err, conn.SetDeadline(time.Time{}))
}

// greet sends what a nats-server sends first. The host signs the nonce.
func (f *front) greet(conn net.Conn, nonce string) error {
	info, err := json.Marshal(server.Info{ID: f.nats.ID(), Name: f.nats.Name(), Version: server.VERSION, GoVersion: runtime.Version(), Proto: server.PROTO,
		Headers: true, AuthRequired: true, TLSRequired: true, MaxPayload: hub.MaxPayload, JetStream: true, Nonce: nonce})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(conn, "INFO %s\r\n", info)
	return err
}

// readLine returns the next protocol line of a host, until the next read. A line that is too long is a violation.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || len(line) > maxLine {
		return nil, errUnknownLine
	}
	return line, err
}

// admit returns the host that has signed the nonce in its CONNECT line, and the CONNECT line with which the front lets it in at the
// server. It logs why there is none.
func (g *guard) admit(from net.Addr, line []byte, nonce string) (host, connect string, err error) {
	o := server.ClientOpts{Verbose: true, Pedantic: true, Echo: true} // as in a server
	text, ok := strings.CutPrefix(string(line), "CONNECT ")
	if !ok || json.Unmarshal([]byte(text), &o) != nil {
		return "", "", errUnknownLine
	}
	h, err := g.identify(&o, []byte(nonce))
	if err != nil {
		g.complain(from, err)
		return "", "", errNotAuthorized
	}
	own, err := json.Marshal(server.ClientOpts{Verbose: o.Verbose, Pedantic: o.Pedantic, Echo: o.Echo, Headers: o.Headers, NoResponders: o.NoResponders, Protocol: o.Protocol,
		Name: o.Name, Lang: o.Lang, Version: o.Version, Nkey: h.Public, Username: h.Name, Password: g.own})
	return h.Name, fmt.Sprintf("CONNECT %s\r\n", own), err
}
