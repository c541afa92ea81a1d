package hub

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// greeted opens a connection to the hub and returns the nonce of the greeting.
func (w *world) greeted() (conn net.Conn, nonce string) {
	w.Helper()
	conn, err := net.Dial("tcp", w.s.Addr())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(await.Deadline()); err != nil {
		w.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		w.Fatal(err)
	}
	var info struct{ Nonce string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		w.Fatal(err)
	}
	return conn, info.Nonce
}

// secured performs the TLS handshake.
func (w *world) secured(conn net.Conn) *tls.Conn {
	w.Helper()
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	if err := secure.Handshake(); err != nil {
		w.Fatal(err)
	}
	return secure
}

// proof returns the CONNECT line of a host that signs the nonce.
func (w *world) proof(host, nonce string) string {
	w.Helper()
	c := w.credentials(host)
	public, err := c.PublicKey()
	if err != nil {
		w.Fatal(err)
	}
	signature, err := c.Sign([]byte(nonce))
	if err != nil {
		w.Fatal(err)
	}
	return fmt.Sprintf("CONNECT {\"nkey\":%q,\"sig\":%q,\"headers\":true}\r\n", public, base64.RawURLEncoding.EncodeToString(signature))
}

func TestFrontForwardsNothingBeforeAuthentication(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	proof := w.proof("pc", "another nonce")
	for _, c := range []struct{ line, want string }{
		{"PING\r\n", "Unknown Protocol Operation"}, {"PUB ach.pc.here 0\r\n\r\n", "Unknown Protocol Operation"}, {"CONNECT\r\n", "Unknown Protocol Operation"}, {"CONNECT {\r\n", "Unknown Protocol Operation"},
		{"connect {}\r\n", "Unknown Protocol Operation"}, {"CONNECT {\"name\":\"" + strings.Repeat("x", maxLine) + "\"}\r\n", "Unknown Protocol Operation"},
		{"CONNECT {}\r\n", "Authorization Violation"}, {"CONNECT {\"user\":\"hub\",\"pass\":\"\"}\r\n", "Authorization Violation"}, {proof, "Authorization Violation"},
	} {
		conn, _ := w.greeted()
		secure := w.secured(conn)
		if _, err := io.WriteString(secure, c.line); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(secure); string(got) != "-ERR '"+c.want+"'\r\n" {
			t.Errorf("after %.60q: got %q, %v, want %s", c.line, got, err, c.want)
		}
	}
	if z, err := w.s.nats.Varz(nil); err != nil || z.TotalConnections != 1 {
		t.Errorf("connections of the server: got %d, want only that of the hub", z.TotalConnections)
	}
}

func TestUnknownClientsTakeNoConnectionsOfHosts(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	w.end()
	w.connections = 2
	w.start()
	for range 20 {
		w.greeted()
		conn, _ := w.greeted()
		w.secured(conn)
	}
	robot, pc := w.connect("robot"), w.connect("pc")
	if text := w.make(robot, "robot", "imu"); text != "" {
		t.Error(text)
	}
	if text := w.read(pc, "pc", "robot,imu"); text != "" {
		t.Error(text)
	}
}

func TestHostConnectsDuringFloodOfUnknownClients(t *testing.T) {
	w := newWorld(t, "robot")
	var stop atomic.Bool
	var opened atomic.Int64
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			var open []net.Conn
			for !stop.Load() {
				if conn, err := net.Dial("tcp", w.s.Addr()); err == nil {
					open = append(open, conn)
					opened.Add(1)
				}
				time.Sleep(2 * time.Millisecond) // 2,000 connections a second in all
				if len(open) > maxUnproved/2 {   // all clients together keep twice the limit open
					open[0].Close()
					open = open[1:]
				}
			}
			for _, conn := range open {
				conn.Close()
			}
		})
	}
	defer wait.Wait()
	defer stop.Store(true)
	w.until("there are many more strangers than places", func() bool { return opened.Load() > 2*maxUnproved })
	w.from = "127.0.1.1" // another network than that of the unknown clients
	for range need.LongOr(20, 10) {
		w.connect("robot").Close()
	}
}

// peer is a connection to an address.
type peer struct {
	net.Conn
	addr     string
	isClosed bool
}

func (p *peer) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(p.addr), Port: 1} }
func (p *peer) Close() error         { p.isClosed = true; return nil }

func TestOldestConnectionOfLargestNetworkIsClosed(t *testing.T) {
	for _, c := range []struct {
		name    string
		others  []string // addresses before and after those of the largest network
		network string   // format of the others' addresses
	}{
		{"IPv4", []string{"10.0.1.1", "10.0.2.1"}, "10.0.0.%d"},
		{"IPv6", []string{"2001:db8:0:1::1", "2001:db8:0:2::1"}, "2001:db8::%x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, first, last := unproved{}, &peer{addr: c.others[0]}, &peer{addr: c.others[1]}
			u.enter(first)
			var many []*peer
			for i := range maxUnproved {
				p := &peer{addr: fmt.Sprintf(c.network, i%250+1)}
				many = append(many, p)
				u.enter(p)
			}
			u.enter(last)
			u.leave(many[0]) // u has already removed this connection
			if first.isClosed || last.isClosed || !many[0].isClosed || !many[1].isClosed || many[2].isClosed || len(u.conns) != maxUnproved {
				t.Errorf("got %d connections, want %d, without the two oldest of the network", len(u.conns), maxUnproved)
			}
			for _, p := range append(many[2:], first, last) {
				u.leave(p)
			}
			if len(u.conns)+len(u.networks) > 0 {
				t.Errorf("got %d connections and %d networks, want none", len(u.conns), len(u.networks))
			}
		})
	}
}
