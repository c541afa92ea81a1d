package docs_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// farApart is the document whose hosts have no path to each other: they reach only the hubs.
// They have the network's key.
const farApart = "fleet.md"

// isHub reports whether host is a hub of farApart, to which all hosts have a path.
func isHub(host string) bool { return host == "hub" || host == "nats" }

// setApart prepares the hosts of farApart.
func (s *story) setApart() {
	s.Helper()
	var names strings.Builder
	for _, hub := range s.lab.Hosts() {
		if isHub(hub) {
			at, err := s.lab.Addr(hub)
			s.check(err)
			names.WriteString(at.String() + " " + hub + ".example.com\n")
		}
	}
	s.do(step{host: "robot", line: "achbridge key new"})
	for _, from := range s.lab.Hosts() {
		s.check(s.root(from, "cat >>/etc/hosts <<'END'\n"+names.String()+"END").Run())
		if isHub(from) {
			continue
		}
		if from != "robot" {
			s.do(step{host: "robot", line: "ssh " + from + " mkdir -p .config/achbridge"})
			s.do(step{host: "robot", line: "scp .config/achbridge/key " + from + ":.config/achbridge/key"})
		}
		for _, to := range s.lab.Hosts() {
			if from != to && !isHub(to) {
				s.check(s.lab.Change(from+">"+to, "cut"))
			}
		}
	}
	s.background("atlas", "exec achbridge publish imu:100:64 legs:10:3000")
	s.certify("nats")
}

// certify gives a host the certificate of its server.
func (s *story) certify(host string) {
	s.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	s.check(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host + ".example.com"}, NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(10, 0, 0)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	s.check(err)
	key, err := x509.MarshalPKCS8PrivateKey(private)
	s.check(err)
	for _, f := range []struct {
		name, kind string
		bytes      []byte
	}{{"server.pem", "CERTIFICATE", certificate}, {"server-key.pem", "PRIVATE KEY", key}} {
		text := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.bytes})
		s.check(os.WriteFile(filepath.Join(s.home(host), f.name), text, 0o600))
	}
	s.own(host)
}
