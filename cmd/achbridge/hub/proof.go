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

// unproved holds the connections that are not authenticated yet. It never refuses a new connection. Above maxUnproved, it closes the
// oldest connection from the network with most of them. So unknown peers in one network cannot keep out hosts in another network.
type unproved struct {
	mu       sync.Mutex
	conns    []unprovedConn // the oldest first
	networks map[netip.Prefix]*int
}

// unprovedConn is a connection with the number of unproved connections from its network.
type unprovedConn struct {
	net.Conn
	fromNetwork *int
}

// maxUnproved limits the memory for unauthenticated connections, about 30 KiB each.
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

// remove removes the connection at index i. u.mu must be held.
func (u *unproved) remove(i int) {
	c := u.conns[i]
	if *c.fromNetwork--; *c.fromNetwork == 0 {
		delete(u.networks, networkOf(c))
	}
	u.conns = slices.Delete(u.conns, i, i+1)
}

// networkOf returns the network of a connection's remote address: a /64 of IPv6 or a /24 of IPv4.
func networkOf(conn net.Conn) netip.Prefix {
	addr, bits := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap(), 64
	if addr.Is4() {
		bits = 24
	}
	network, _ := addr.Prefix(bits) // the bits are valid
	return network
}

// hostConn is an authenticated connection of a host.
type hostConn struct {
	conn    *tls.Conn
	in      *bufio.Reader // reads from conn
	name    string
	connect string // the CONNECT line for the server
}

// prove authenticates a connection: it sends the greeting, does the TLS handshake, and waits for the host's proof. The handshake and
// the proof may each take tlsLimit.
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

// greet sends the INFO message with which a nats-server begins. The host signs the nonce.
func (f *front) greet(conn net.Conn, nonce string) error {
	info, err := json.Marshal(server.Info{ID: f.nats.ID(), Name: f.nats.Name(), Version: server.VERSION, GoVersion: runtime.Version(), Proto: server.PROTO,
		Headers: true, AuthRequired: true, TLSRequired: true, MaxPayload: hub.MaxPayload, JetStream: true, Nonce: nonce})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(conn, "INFO %s\r\n", info)
	return err
}

// readLine returns the next protocol line of a host, valid until the next read. A line that is too long is a violation.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || len(line) > maxLine {
		return nil, errUnknownLine
	}
	return line, err
}

// admit returns the host that signed the nonce in its CONNECT line, and the CONNECT line that the front sends to the server for this
// host. It logs the reason for a refusal.
func (g *guard) admit(from net.Addr, line []byte, nonce string) (host, connect string, err error) {
	o := server.ClientOpts{Verbose: true, Pedantic: true, Echo: true} // defaults of a nats-server
	text, ok := strings.CutPrefix(string(line), "CONNECT ")
	if !ok || json.Unmarshal([]byte(text), &o) != nil {
		return "", "", errUnknownLine
	}
	h, err := g.identify(&o, []byte(nonce))
	if err != nil {
		g.warn(from, err)
		return "", "", errNotAuthorized
	}
	own, err := json.Marshal(server.ClientOpts{Verbose: o.Verbose, Pedantic: o.Pedantic, Echo: o.Echo, Headers: o.Headers, NoResponders: o.NoResponders, Protocol: o.Protocol,
		Name: o.Name, Lang: o.Lang, Version: o.Version, Nkey: h.Public, Username: h.Name, Password: g.own})
	return h.Name, fmt.Sprintf("CONNECT %s\r\n", own), err
}
