package hub

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"achbridge/bridge/hub"
	"achbridge/bridge/logline"
)

// guard decides which hosts may connect. The front calls it for each connection, then the server does.
type guard struct {
	dir Directory
	log *slog.Logger
	own string // password of the maker's and the front's connections to the server; never leaves this process

	mu        sync.Mutex
	hosts     map[string]string // name by public key
	names     map[string]bool
	listed    []Host
	as        map[uint64]Host // host of each accepted connection, until members.check finds the connection closed
	hostsInfo os.FileInfo     // file hosts when it was last read
	refused   logline.Limit
	began     time.Time
}

// ownUser is the user name of the maker's connection.
const ownUser = "hub"

func newGuard(d Directory, log *slog.Logger) (*guard, error) {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails
	g := &guard{dir: d, log: log, own: hex.EncodeToString(secret), as: map[uint64]Host{}, began: time.Now(),
		refused: logline.Limit{Burst: 5, Period: 10 * time.Second}}
	info, err := os.Stat(d.hosts())
	if err != nil {
		_, err = d.Hosts() // has a better error
		return nil, err
	}
	list, err := d.Hosts()
	if err != nil {
		return nil, err
	}
	g.take(list, info)
	return g, nil
}

func (g *guard) take(list []Host, seen os.FileInfo) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hosts, g.names, g.listed, g.hostsInfo = map[string]string{}, map[string]bool{}, list, seen
	for _, h := range list {
		g.hosts[h.Public], g.names[h.Name] = h.Name, true
	}
}

// reread reloads the file hosts if it has changed, and returns the removed hosts. If the file
// is invalid, reread logs an error once and keeps the previous hosts.
func (g *guard) reread() (gone []Host) {
	info, err := os.Stat(g.dir.hosts())
	if err != nil || same(info, g.hostsInfo) { // only this goroutine sets seen
		return nil
	}
	list, err := g.dir.Hosts()
	if err != nil {
		g.log.Error("cannot reload hosts, keeping previous list", "err", err)
		g.mu.Lock()
		g.hostsInfo = info // logs the error only once
		g.mu.Unlock()
		return nil
	}
	before := g.list()
	g.take(list, info)
	now, was := setOf(list), setOf(before)
	for _, h := range list {
		if !was[h] {
			g.log.Info("host added", "host", h.Name)
		}
	}
	for _, h := range before {
		if !now[h] {
			g.log.Info("host removed", "host", h.Name)
			gone = append(gone, h)
		}
	}
	return gone
}

func setOf(list []Host) map[Host]bool {
	set := make(map[Host]bool, len(list))
	for _, h := range list {
		set[h] = true
	}
	return set
}

func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func (g *guard) list() []Host {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.listed // never changed, only replaced
}

// has reports whether the hub has a host of that name.
func (g *guard) has(host string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.names[host]
}

// hostOf returns the name of the host with a public key.
func (g *guard) hostOf(key string) (host string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	host, ok = g.hosts[key]
	return host, ok
}

// Check implements server.Authentication. Only the maker and the front know the password; the front has checked that a host has its key.
func (g *guard) Check(c server.ClientAuthentication) bool {
	opts := c.GetOpts()
	if subtle.ConstantTimeCompare([]byte(opts.Password), []byte(g.own)) != 1 {
		return false
	}
	if opts.Nkey == "" {
		c.RegisterUser(&server.User{Username: ownUser})
		return true
	}
	host := Host{opts.Username, opts.Nkey}
	if err := g.let(c.GetID(), host); err != nil {
		g.warn(c.RemoteAddress(), err)
		return false
	}
	p := hub.PermissionsOf(host.Name)
	c.RegisterUser(&server.User{Username: host.Name, Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: p.Publish}, Subscribe: &server.SubjectPermission{Allow: p.Subscribe}}})
	return true
}

// warn logs, rate-limited, that a connection is refused.
func (g *guard) warn(from net.Addr, err error) {
	g.mu.Lock()
	count, due := g.refused.Cause(time.Since(g.began))
	g.mu.Unlock()
	if due {
		g.log.Warn("connection refused", "from", from.String(), "err", err, "count", count)
	}
}

var (
	errNoKey   = errors.New("it does not say which host it is")
	errUnknown = errors.New("its key is of no host of this hub: removed, or of another hub")
	errNoProof = errors.New("it does not prove that it has the key that it names")
	errMany    = errors.New("its host has made too many connections within a second")
)

// maxConnections limits the connections of one host. Once a second, members.check closes all but the newest keptConnections.
const maxConnections = 32

// let records the host of a connection. It returns an error if the host already has maxConnections, or was removed.
func (g *guard) let(connection uint64, host Host) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hosts[host.Public] != host.Name {
		return errUnknown
	}
	count := 0
	for _, h := range g.as {
		if h == host {
			count++
		}
	}
	if count >= maxConnections {
		return errMany
	}
	g.as[connection] = host
	return nil
}

// identify returns the host whose key signed the nonce.
func (g *guard) identify(opts *server.ClientOpts, nonce []byte) (Host, error) {
	if opts.Nkey == "" {
		return Host{}, errNoKey
	}
	name, ok := g.hostOf(opts.Nkey)
	if !ok {
		return Host{}, errUnknown
	}
	signature, err := base64.RawURLEncoding.DecodeString(opts.Sig)
	if err != nil { // encoding of older clients
		signature, err = base64.StdEncoding.DecodeString(opts.Sig)
	}
	key, err2 := nkeys.FromPublicKey(opts.Nkey)
	if err != nil || err2 != nil || len(nonce) == 0 || key.Verify(nonce, signature) != nil {
		return Host{}, errNoProof
	}
	return Host{name, opts.Nkey}, nil
}

// connections returns the host of each accepted connection, by the server's connection id.
func (g *guard) connections() map[uint64]Host {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.as)
}

// lets reports whether connections of a host are still allowed.
func (g *guard) lets(h Host) bool {
	name, ok := g.hostOf(h.Public)
	return ok && name == h.Name
}

// forget removes a closed connection.
func (g *guard) forget(connection uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.as, connection)
}
