package transport

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/trust"
)

func TestListenReportsAllErrorsAtOnce(t *testing.T) {
	conn := newLoopbackConn(t)
	_, err := Listen(conn, Config{Host: "a/b", idleTimeout: time.Millisecond})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"achbridge key new", "no node id", `"a/b"`, "idle timeout 1ms"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error: got %q, want %q in it", err, want)
		}
	}
	if _, err := conn.WriteTo([]byte("x"), conn.LocalAddr()); err != nil {
		t.Errorf("the socket of a failed Listen: got %v, want it open: it is the caller's", err)
	}
}

func TestListenRefusesCertificateOfOtherHost(t *testing.T) {
	cfg := issued(t, newAuthority(t), "robot")
	for name, change := range map[string]func(*Config){
		"another name": func(c *Config) { c.Host = "pc" },
		"another node": func(c *Config) { c.Node = nodeOf("robot") },
	} {
		wrong := cfg
		change(&wrong)
		if _, err := Listen(newLoopbackConn(t), wrong); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: got %v, want an error that tells of the certificate", name, err)
		}
	}
}

func TestDialRefusesNonUDPAddress(t *testing.T) {
	e, err := Listen(newLoopbackConn(t), Config{Key: trust.NewKey(), Node: nodeOf("pc"), Host: "pc"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Dial(context.Background(), Addrs{}); err == nil || !strings.Contains(err.Error(), "no address") {
		t.Errorf("dial nowhere: got %v", err)
	}
	for _, addr := range []net.Addr{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}} {
		if _, err := e.Dial(context.Background(), Addrs{QUIC: addr}); err == nil || !strings.Contains(err.Error(), "UDP address") {
			t.Errorf("dial %v: got %v", addr, err)
		}
	}
}

func newLoopbackConn(t *testing.T) net.PacketConn {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
