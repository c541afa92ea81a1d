package hub

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"achbridge/bridge/hub"
	"achbridge/cmd/achbridge/config"
	"achbridge/testnet/await"
)

// world is a hub with its log.
type world struct {
	*testing.T
	dir    Directory
	memory int64 // limit of memory for frames; 0 means the default
	// connections is the limit of connections; 0 means the default.
	connections int
	from        string // address from which hosts dial; "" means any
	s           *Server
	end         func()
	logs        *await.Log
}

// newWorld runs a hub of these hosts.
func newWorld(t *testing.T, hosts ...string) *world {
	t.Helper()
	return newWorldWith(t, 0, hosts...)
}

// newWorldWith runs a hub of these hosts with the given limit of memory for frames.
func newWorldWith(t *testing.T, memory int64, hosts ...string) *world {
	t.Helper()
	w := &world{T: t, dir: Directory(filepath.Join(t.TempDir(), "hub")), memory: memory, logs: &await.Log{}}
	if _, err := w.dir.Init("tls://localhost:4222"); err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts {
		w.add(h)
	}
	w.start()
	return w
}

func (w *world) start() {
	w.Helper()
	var err error
	w.s, err = New(Config{Dir: w.dir, Listen: "127.0.0.1:0", HTTP: ":0", Memory: cmp.Or(w.memory, Defaults().Memory), Connections: cmp.Or(w.connections, Defaults().Connections), Version: "test", Log: slog.New(slog.NewTextHandler(w.logs, nil)),
		Places: config.Places{Env: func(string) string { return "" }, UID: os.Getuid()}})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.s.Run(ctx) }()
	w.end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("the hub ended: %v", err)
		}
	})
	w.Cleanup(w.end)
}

func (w *world) file(host string) string {
	return filepath.Join(filepath.Dir(string(w.dir)), host+".creds")
}

func (w *world) add(host string) {
	w.Helper()
	if err := w.dir.Add(host, w.file(host)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) credentials(host string) hub.Credentials {
	w.Helper()
	c, err := hub.ReadCredentials(w.file(host))
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// dial connects as a host, once.
func (w *world) dial(c hub.Credentials) (*nats.Conn, error) {
	w.Helper()
	return w.dialAt("tls://"+w.s.Addr(), c)
}

func (w *world) dialAt(url string, c hub.Credentials) (*nats.Conn, error) {
	w.Helper()
	public, err := c.PublicKey()
	if err != nil {
		w.Fatal(err)
	}
	conn, err := nats.Connect(url, nats.Nkey(public, c.Sign), nats.CustomInboxPrefix(hub.InboxPrefix(c.Host)), nats.NoReconnect(),
		nats.Dialer(&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(w.from)}, Timeout: await.Limit}), nats.Timeout(await.Limit),
		nats.Secure(&tls.Config{InsecureSkipVerify: true, VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if sum := sha256.Sum256(raw[0]); !bytes.Equal(sum[:], c.Certificate) {
				return errors.New("another certificate")
			}
			return nil
		}}),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err == nil {
		w.Cleanup(conn.Close)
	}
	return conn, err
}

func (w *world) connect(host string) *nats.Conn {
	w.Helper()
	conn, err := w.dial(w.credentials(host))
	if err != nil {
		w.Fatal(err)
	}
	return conn
}

// forbidden checks that the server does not let a host publish there.
func (w *world) forbidden(conn *nats.Conn, subjects ...string) {
	w.Helper()
	for _, subject := range subjects {
		err := conn.Publish(subject, nil)
		if err == nil {
			err = conn.FlushTimeout(await.Limit)
		}
		if err != nil {
			w.Fatal(err)
		}
		if err := conn.LastError(); !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), strconv.Quote(subject)) {
			w.Errorf("publishing to %s: got %v, want a permissions violation", subject, err)
		}
	}
}

// until waits until ok returns true. what describes the condition.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	await.NoError(w, func() error {
		if ok() {
			return nil
		}
		return fmt.Errorf("%s; the log:\n%s", what, w.logs)
	})
}

// make requests the stream of a host's channel. It returns the answer: empty, or an error.
func (w *world) make(conn *nats.Conn, host, channel string) string {
	w.Helper()
	answer, err := conn.Request(hub.MakeOf(host), []byte(channel), await.Limit)
	if err != nil {
		w.Fatal(err)
	}
	return string(answer.Data)
}

// read requests a host's consumer on a stream from the hub. It returns the answer: empty, or an error.

func (w *world) read(conn *nats.Conn, host, request string) string {
	w.Helper()
	answer, err := conn.Request(hub.ReadOf(host), []byte(request), await.Limit)
	if err != nil {
		w.Fatal(err)
	}
	return string(answer.Data)
}
