package hub

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"achbridge/testnet/await"
	"achbridge/testnet/hosts"
)

func TestMain(m *testing.M) {
	hosts.Main()
	if role := os.Getenv(asRole); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// testHub is a nats-server with the settings of our hubs.
type testHub struct {
	t           testing.TB
	options     server.Options
	tls         tls.Certificate
	certificate []byte // its hash
	hosts       map[string]Credentials
	server      *server.Server
	owner       *nats.Conn
	port        int
}

const ownerName = "owner"

// startHub runs a hub for these hosts until the test ends.
func startHub(t testing.TB, hosts ...string) *testHub {
	t.Helper()
	h := newHub(t, hosts...)
	h.start()
	return h
}

func newHub(t testing.TB, hosts ...string) *testHub {
	t.Helper()
	certificate := newCertificate(t)
	sum := sha256.Sum256(certificate.Certificate[0])
	h := &testHub{t: t, tls: certificate, certificate: sum[:], hosts: map[string]Credentials{}, port: reservePort(t)}
	h.options = server.Options{Host: "127.0.0.1", JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		MaxPayload: MaxPayload, MaxControlLine: 4096, TLS: true,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13},
		Users:     []*server.User{{Username: ownerName, Password: ownerName}}}
	for _, host := range hosts {
		c, err := NewCredentials(host, "tls://127.0.0.1", h.certificate)
		if err != nil {
			t.Fatal(err)
		}
		h.hosts[host] = c
		key, _ := c.PublicKey()
		p := PermissionsOf(host)
		h.options.Nkeys = append(h.options.Nkeys, &server.NkeyUser{Nkey: key, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: p.Publish}, Subscribe: &server.SubjectPermission{Allow: p.Subscribe}}})
	}
	t.Cleanup(h.stop)
	return h
}

// reservePort reserves a TCP port of 127.0.0.1 for this test. Programs that set SO_REUSEADDR, as
// Go does, may listen there repeatedly.
func reservePort(t testing.TB) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err2 := unix.Getsockname(fd)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return at.(*unix.SockaddrInet4).Port
}

func (h *testHub) start() {
	h.t.Helper()
	options := h.options
	options.Port = h.port
	s, err := server.NewServer(&options)
	if err != nil {
		h.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(await.Limit) {
		h.t.Fatalf("the server is not ready after %v", await.Limit)
	}
	h.server = s
	h.own()
}

// own connects as the hub's own user, which creates streams and consumers.
func (h *testHub) own() {
	h.t.Helper()
	owner, err := nats.Connect("tls://127.0.0.1:"+strconv.Itoa(h.port), nats.UserInfo(ownerName, ownerName),
		nats.Secure(&tls.Config{InsecureSkipVerify: true}), nats.NoReconnect(), nats.Timeout(await.Limit))
	if err != nil {
		h.t.Fatal(err)
	}
	h.owner = owner
	js, err := jetstream.New(owner)
	if err != nil {
		h.t.Fatal(err)
	}
	serve := func(subject string, do func(ctx context.Context, host string, body []byte) error) {
		_, err := owner.Subscribe(subject, func(m *nats.Msg) {
			ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
			defer cancel()
			host, _ := HostOf(m.Subject)
			answer := ""
			if err := do(ctx, host, m.Data); err != nil {
				answer = err.Error()
			}
			_ = m.Respond([]byte(answer))
		})
		if err != nil {
			h.t.Fatal(err)
		}
	}
	serve(AllMake, func(ctx context.Context, host string, channel []byte) error {
		_, err := js.CreateStream(ctx, StreamOf(host, string(channel)))
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return nil
		}
		return err
	})
	serve(AllRead, func(ctx context.Context, host string, body []byte) error {
		stream, isFirst := ParseRead(body)
		config, err := ConsumerOf(host, stream)
		if isFirst && err == nil {
			_ = js.DeleteConsumer(ctx, stream, config.Name)
		}
		if err == nil {
			_, err = js.CreateConsumer(ctx, stream, config)
		}
		return err
	})
	if err := owner.Flush(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *testHub) stop() {
	if h.owner != nil {
		h.owner.Close()
	}
	if h.server != nil {
		h.server.Shutdown()
		h.server.WaitForShutdown()
	}
	h.server, h.owner = nil, nil
}

func (h *testHub) address() string { return "tls://127.0.0.1:" + strconv.Itoa(h.port) }

// client makes a client of a host and runs it until the test ends. at replaces the hub's own
// address.
func (h *testHub) client(host string, at ...string) *Client {
	h.t.Helper()
	address := h.address()
	if len(at) > 0 {
		address = at[0]
	}
	c := h.newClient(host, address)
	runClient(h.t, c)
	return c
}

// newClient makes a client that is not running yet.
func (h *testHub) newClient(host, address string) *Client {
	h.t.Helper()
	c, err := New(Config{Credentials: h.hosts[host], Hub: address})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func runClient(t testing.TB, c *Client) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// connectedClient waits until the client is connected.
func (h *testHub) connectedClient(host string, at ...string) *Client {
	h.t.Helper()
	c := h.client(host, at...)
	h.connectedAgain(c)
	return c
}

// connectedAgain waits until the client is connected, and can be reached.
func (h *testHub) connectedAgain(c *Client) {
	h.t.Helper()
	await.True(h.t, "connected", func() bool { return c.State().Connected })
	if l, _ := c.current(); l != nil {
		_ = l.small.nc.FlushTimeout(await.Limit) // the hub has handled this host's subscriptions
	}
}

func newCertificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// watchFrames records the frames published to a channel's subject; stop returns them.
func (h *testHub) watchFrames(host, channel string) (stop func() []string) {
	h.t.Helper()
	got := make(chan *nats.Msg, 1024)
	sub, err := h.owner.ChanSubscribe(FrameSubject(host, channel), got)
	if err == nil {
		err = h.owner.Flush()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return func() (all []string) {
		_ = h.owner.Flush()
		_ = sub.Unsubscribe()
		for len(got) > 0 {
			all = append(all, string((<-got).Data))
		}
		return all
	}
}

// roots returns a pool that trusts the hub's certificate.
func (h *testHub) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(h.tls.Certificate[0])
	if err != nil {
		h.t.Fatal(err)
	}
	pool.AddCert(leaf)
	return pool
}
