package daemon

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"achbridge/cmd/achbridge/config"
)

// certificate returns a certificate for this host and its private key, as PEM.
func certificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, about, about, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

func TestViewersAreServedWithTLS(t *testing.T) {
	cert, key := certificate(t)
	path := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(path, append(bytes.Clone(cert), key...), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &config.Config{Settings: config.Settings{FoxgloveListen: "127.0.0.1:0", FoxgloveCert: path}}
	ln, err := listenFoxglove(c)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if conn, err := ln.Accept(); err == nil {
			_, _ = conn.Write([]byte("hello"))
			conn.Close()
		}
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b := make([]byte, 5)
	if n, err := conn.Read(b); err != nil || string(b[:n]) != "hello" {
		t.Errorf("got %q, %v, want hello", b[:n], err)
	}
}

func TestBadCertificateOfViewersIsNamed(t *testing.T) {
	cert, _ := certificate(t)
	path := filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(path, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, path + ".missing"} {
		c := &config.Config{Settings: config.Settings{FoxgloveListen: "127.0.0.1:0", FoxgloveCert: path}}
		if _, err := listenFoxglove(c); err == nil || !strings.Contains(err.Error(), "foxglove certificate "+path+": ") {
			t.Errorf("%s: got %v, want an error that names the file", path, err)
		}
	}
	if ln, err := listenFoxglove(&config.Config{}); ln != nil || err != nil {
		t.Errorf("without an address: got %v, %v, want nothing", ln, err)
	}
}

func TestViewerAddressCanBeReached(t *testing.T) {
	for _, c := range []struct {
		listen   string
		isSecure bool
		want     string
	}{
		{"127.0.0.1:8765", false, "ws://127.0.0.1:8765"},
		{"[::1]:8765", false, "ws://[::1]:8765"},
		{"192.168.1.7:8765", true, "wss://192.168.1.7:8765"},
		{"[::]:8765", true, "wss://krang:8765"},
		{"0.0.0.0:8765", true, "wss://krang:8765"},
	} {
		if got := viewerAddress(c.listen, "krang", c.isSecure); got != c.want {
			t.Errorf("viewerAddress(%q) = %q, want %q", c.listen, got, c.want)
		}
	}
}
