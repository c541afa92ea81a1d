package trust

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Key makes its holder a member of a network. It is either the certificate of one host,
// which an Authority has issued, or a network key: 32 random bytes that all members
// share. While a fleet changes its network key there are two: the first signs for this
// node, and holders of either are members. The zero Key is no key. A Key never shows its
// secrets, whichever way it is printed or logged, alone or inside another value.
type Key struct {
	// held is a closure because fmt, which calls no methods on unexported fields
	// of other types, follows pointers in them.
	held func() keyring
}

// keyring is what a key file holds.
type keyring struct {
	secrets [][]byte // one or two network keys
	host    *hostKey // or this
}

const (
	keySize   = 32
	keyPrefix = "achkey1-"
	maxKeys   = 2
)

// NewKey makes a new random network key.
func NewKey() Key {
	b := make([]byte, keySize)
	rand.Read(b) // never fails
	return keyOf(keyring{secrets: [][]byte{b}})
}

// IsZero reports whether k is no key.
func (k Key) IsZero() bool { return k.held == nil }

func keyOf(r keyring) Key { return Key{held: func() keyring { return r }} }

// Network names the network this key belongs to: 8 hexadecimal digits of the
// SHA-256 of the authority's public key. It is public and reveals nothing of the
// key. Empty for the zero Key.
func (k Key) Network() string {
	if k.held == nil {
		return ""
	}
	return k.Networks()[0]
}

// Networks names the networks whose members this key accepts: with two keys both,
// Network first.
func (k Key) Networks() []string {
	var names []string
	if h := k.host(); h != nil {
		return []string{networkOf(h.authority.PublicKey.(ed25519.PublicKey))}
	}
	if k.held != nil {
		for _, secret := range k.held().secrets {
			names = append(names, networkOf(publicOf(authorityOf(secret))))
		}
	}
	return names
}

// The three steps by which a fleet changes its key: every host gets a second key
// before any signs by it, and drops the first one when none does any more.
var (
	errHostKey = errors.New("this is the certificate of a host: see achbridge ca")
	errTwoKeys = errors.New("there are two keys already: a change of keys is under way")
	errOneKey  = errors.New("there is one key, and no change of keys under way")
)

// Add returns a key that also accepts the holders of second as members.
func (k Key) Add(second Key) (Key, error) {
	mine, theirs := k.held().secrets, second.held().secrets
	switch {
	case k.host() != nil || second.host() != nil:
		return Key{}, errHostKey
	case len(mine)+len(theirs) > maxKeys:
		return Key{}, errTwoKeys
	}
	return keyOf(keyring{secrets: append(mine[:1:1], theirs...)}), nil
}

// Swap returns a key that signs with the second key and still accepts the holders of the
// first as members.
func (k Key) Swap() (Key, error) {
	s, err := k.twoSecrets()
	if err != nil {
		return Key{}, err
	}
	return keyOf(keyring{secrets: [][]byte{s[1], s[0]}}), nil
}

// Drop returns the first of two keys alone.
func (k Key) Drop() (Key, error) {
	s, err := k.twoSecrets()
	if err != nil {
		return Key{}, err
	}
	return keyOf(keyring{secrets: s[:1]}), nil
}

func (k Key) twoSecrets() ([][]byte, error) {
	switch {
	case k.host() != nil:
		return nil, errHostKey
	case len(k.held().secrets) != maxKeys:
		return nil, errOneKey
	}
	return k.held().secrets, nil
}

// String names the networks of the key, never the key itself.
func (k Key) String() string {
	if k.held == nil {
		return "no network key"
	}
	if host := k.Host(); host != "" {
		return "certificate of host " + host + " of network " + k.Network()
	}
	return "key of network " + strings.Join(k.Networks(), " and ")
}

// Format prints String for every verb and flag.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue logs String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// text is the form of the key in its file.
func (k Key) text() string {
	if h := k.host(); h != nil {
		return h.text()
	}
	var b strings.Builder
	for _, secret := range k.held().secrets {
		b.WriteString(keyPrefix + base64.RawURLEncoding.EncodeToString(secret) + "\n")
	}
	return b.String()
}

var errKeyText = errors.New(`not a key file: want one line "achkey1-" and 43 characters, as written by ` + "`achbridge key new`" + `, or two of them`)

// parseKey parses the text of a key file. Its errors never repeat the text.
func parseKey(text string) (Key, error) {
	if strings.HasPrefix(text, "-----BEGIN") {
		return parseHostKey(text)
	}
	lines := strings.Split(strings.TrimRight(text, " \t\r\n"), "\n")
	if len(lines) > maxKeys {
		return Key{}, errKeyText
	}
	var r keyring
	for _, line := range lines {
		secret, err := parseSecret(strings.TrimRight(line, " \t\r"))
		if err != nil {
			return Key{}, err
		}
		r.secrets = append(r.secrets, secret)
	}
	if len(r.secrets) == maxKeys && bytes.Equal(r.secrets[0], r.secrets[1]) {
		return Key{}, errors.New("not a key file: it has the same key twice")
	}
	return keyOf(r), nil
}

func parseSecret(line string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(line, keyPrefix)
	// Strict: one key has one spelling. DecodeString itself skips \r and \n.
	if !ok || strings.ContainsAny(encoded, "\r\n") {
		return nil, errKeyText
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(b) != keySize {
		return nil, errKeyText
	}
	return b, nil
}
