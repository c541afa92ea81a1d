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
// issued by an Authority, or a network key: 32 random bytes that all members share. While a
// fleet changes its network key, a Key has two. The first signs for this node, and holders of
// either are members. The zero Key is no key. A Key never prints or logs its secrets, also
// not as part of another value.
type Key struct {
	// keyring returns the secrets; nil means no key. It is a closure because fmt prints
	// unexported fields of other types without their methods, and follows pointers in them.
	keyring func() keyring
}

// keyring is the content of a key file: network keys or a host key.
type keyring struct {
	secrets [][]byte // one or two network keys
	host    *hostKey // nil with network keys
}

const (
	keySize   = 32
	keyPrefix = "achkey1-"
	maxKeys   = 2
)

// NewKey returns a new random network key.
func NewKey() Key {
	b := make([]byte, keySize)
	rand.Read(b) // never fails
	return keyOf(keyring{secrets: [][]byte{b}})
}

// IsZero reports whether k is the zero Key.
func (k Key) IsZero() bool { return k.keyring == nil }

func keyOf(r keyring) Key { return Key{keyring: func() keyring { return r }} }

// Network returns the name of the key's network: 8 hexadecimal digits of the SHA-256 of the
// authority's public key. It is public and reveals nothing about the key. It is empty for
// the zero Key.
func (k Key) Network() string {
	if k.keyring == nil {
		return ""
	}
	return k.Networks()[0]
}

// Networks returns the names of the networks whose members this key accepts, Network first.
// With two network keys there are two.
func (k Key) Networks() []string {
	var names []string
	if h := k.host(); h != nil {
		return []string{networkOf(h.authority.PublicKey.(ed25519.PublicKey))}
	}
	if k.keyring != nil {
		for _, secret := range k.keyring().secrets {
			names = append(names, networkOf(publicOf(authorityOf(secret))))
		}
	}
	return names
}

// A fleet changes its key by Add, Swap and Drop: all hosts get a second key before any host
// signs with it, and drop the first key when no host signs with that any more.
var (
	errHostKey = errors.New("this is the certificate of a host: see achbridge ca")
	errTwoKeys = errors.New("there are two keys already: a change of keys is under way")
	errOneKey  = errors.New("there is one key, and no change of keys under way")
)

// Add returns a key that also accepts the holders of second as members.
func (k Key) Add(second Key) (Key, error) {
	mine, theirs := k.keyring().secrets, second.keyring().secrets
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

// Drop returns only the first of two keys, which signs for this node.
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
	case len(k.keyring().secrets) != maxKeys:
		return nil, errOneKey
	}
	return k.keyring().secrets, nil
}

// String returns the networks of the key, never the key itself.
func (k Key) String() string {
	if k.keyring == nil {
		return "no network key"
	}
	if host := k.Host(); host != "" {
		return "certificate of host " + host + " of network " + k.Network()
	}
	return "key of network " + strings.Join(k.Networks(), " and ")
}

// Format prints String for all formats and flags.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue logs String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// text returns the content of the key's file.
func (k Key) text() string {
	if h := k.host(); h != nil {
		return h.text()
	}
	var b strings.Builder
	for _, secret := range k.keyring().secrets {
		b.WriteString(keyPrefix + base64.RawURLEncoding.EncodeToString(secret) + "\n")
	}
	return b.String()
}

var errKeyText = errors.New(`not a key file: want one line "achkey1-" and 43 characters, as written by ` + "`achbridge key new`" + `, or two of them`)

// ParseKey parses the text of a key file. Its errors never contain the text.
func ParseKey(text string) (Key, error) {
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
	// Strict makes the encoding of a key unique. DecodeString itself skips \r and \n.
	if !ok || strings.ContainsAny(encoded, "\r\n") {
		return nil, errKeyText
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(b) != keySize {
		return nil, errKeyText
	}
	return b, nil
}
