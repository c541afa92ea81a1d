package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"

	"achbridge/bridge/secret"

	"github.com/nats-io/nkeys"
)

// DefaultPort is the default port of a hub.
const DefaultPort = "4222"

// Credentials let one host connect to a hub. Printing and logging never reveal their secret.
type Credentials struct {
	Host string
	Hub  string // tls://HOST:PORT; tests of the hub also compare it
	// Certificate is the SHA-256 of the hub's certificate, in DER. nil means that the system's
	// roots verify the hub. Tests of the hub also compare it.
	Certificate []byte
	// seed is a closure because fmt follows pointers in fields of other types.
	seed func() []byte
}

// NewCredentials makes credentials with a new secret.
func NewCredentials(host, address string, certificate []byte) (Credentials, error) {
	c := Credentials{Host: host, Certificate: certificate}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return c, fmt.Errorf("credentials of %s: %w", host, err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return c, fmt.Errorf("credentials of %s: %w", host, err)
	}
	c.seed = func() []byte { return seed }
	if c.Hub, err = ParseAddress(address); err != nil {
		return c, fmt.Errorf("credentials of %s: %w", host, err)
	}
	return c, CheckHost(host)
}

// ReadCredentials reads a credentials file. The error is fs.ErrNotExist for a missing file, and
// fs.ErrPermission for a file that others may read or write. Errors name the line and the fix.
func ReadCredentials(path string) (Credentials, error) {
	text, err := secret.Read("credentials", path)
	if err != nil {
		return Credentials{}, err
	}
	c, err := parseCredentials(text)
	if err != nil {
		return c, fmt.Errorf("credentials %s%w", path, err)
	}
	return c, nil
}

// Write stores the credentials at path with mode 0600. It never overwrites a file: the error is
// then fs.ErrExist.
func (c Credentials) Write(path string) error {
	return secret.Write("credentials", path, c.text(), nil)
}

// PublicKey returns the public key, by which the hub verifies the secret.
func (c Credentials) PublicKey() (string, error) {
	pair, err := nkeys.FromSeed(c.seed())
	if err != nil {
		return "", fmt.Errorf("credentials of %s: %w", c.Host, err)
	}
	return pair.PublicKey()
}

// Sign signs a nonce, to prove to the hub that this host has the secret. Tests of the hub also
// connect with it.
func (c Credentials) Sign(nonce []byte) ([]byte, error) {
	pair, err := nkeys.FromSeed(c.seed())
	if err != nil {
		return nil, fmt.Errorf("credentials of %s: %w", c.Host, err)
	}
	return pair.Sign(nonce)
}

// String describes the credentials without the secret.
func (c Credentials) String() string { return "credentials of " + c.Host + " for " + c.Hub }

// Format prints String for every verb and flag.
func (c Credentials) Format(f fmt.State, _ rune) { io.WriteString(f, c.String()) }

// LogValue logs String.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

const hashPrefix = "sha256:"

func (c Credentials) text() string {
	var b strings.Builder
	at, _ := url.Parse(c.Hub)
	fmt.Fprintf(&b, "# Credentials of %s for the hub at %s. Anyone with this file can connect as %s.\n", c.Host, at.Hostname(), c.Host)
	fmt.Fprintf(&b, "host: %s\nhub: %s\n", c.Host, c.Hub)
	if c.Certificate != nil {
		fmt.Fprintf(&b, "certificate: %s%x\n", hashPrefix, c.Certificate)
	}
	fmt.Fprintf(&b, "seed: %s\n", c.seed())
	return b.String()
}

// parseCredentials parses the text of a file. Its errors begin with ":LINE: ", or with ": ".
func parseCredentials(text string) (Credentials, error) {
	c := Credentials{}
	seen := map[string]bool{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, ": ")
		if !ok || seen[key] {
			return Credentials{}, fmt.Errorf(":%d: want each of host, hub, certificate and seed once, as in 'host: robot': %s", n, copyAgain)
		}
		seen[key] = true
		if err := c.set(key, strings.TrimSpace(value)); err != nil {
			return Credentials{}, fmt.Errorf(":%d: %s: %w: %s", n, key, err, copyAgain)
		}
	}
	for _, key := range []string{"host", "hub", "seed"} {
		if !seen[key] {
			return Credentials{}, fmt.Errorf(": the line '%s: ...' is missing: %s", key, copyAgain)
		}
	}
	return c, nil
}

// copyAgain is the fix for a damaged file.
const copyAgain = "copy the file again from where achbridge hub add wrote it"

func (c *Credentials) set(key, value string) (err error) {
	switch key {
	case "host":
		c.Host = value
		return CheckHost(value)
	case "hub":
		c.Hub, err = ParseAddress(value)
		return err
	case "certificate":
		digits, ok := strings.CutPrefix(value, hashPrefix)
		sum, err := hex.DecodeString(digits)
		if !ok || err != nil || len(sum) != sha256.Size {
			return errors.New("want sha256: and 64 hexadecimal digits")
		}
		c.Certificate = sum
		return nil
	case "seed":
		pair, err := nkeys.FromSeed([]byte(value))
		if err != nil {
			return errors.New("it is damaged") // must not contain the seed
		}
		if public, err := pair.PublicKey(); err != nil || !nkeys.IsValidPublicUserKey(public) {
			return errors.New("it is not the seed of a host")
		}
		c.seed = func() []byte { return []byte(value) }
		return nil
	}
	return errors.New("no such key")
}

// maxHost is the maximum length of a host name, in bytes.
const maxHost = 63

// CheckHost returns an error if name cannot be the name of a host.
func CheckHost(name string) error {
	switch {
	case name == "":
		return errors.New("host: want a name")
	case len(name) > maxHost:
		return fmt.Errorf("host %q: longer than %d bytes", name, maxHost)
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f }):
		return fmt.Errorf("host %q: want a name without spaces and /", name)
	}
	return nil
}

// ParseAddress parses the address of a hub, tls://HOST or tls://HOST:PORT. It returns the address
// with its port.
func ParseAddress(text string) (string, error) {
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "tls" || at.Hostname() == "" || at.User != nil || at.Path != "" || at.RawQuery != "" || at.Fragment != "" {
		return "", fmt.Errorf("%q: want tls://HOST or tls://HOST:PORT", text)
	}
	port := at.Port()
	if port == "" {
		port = DefaultPort
	}
	return "tls://" + net.JoinHostPort(at.Hostname(), port), nil
}
