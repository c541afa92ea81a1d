package hub

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var someHash = bytes.Repeat([]byte{0xab}, 32)

func newCredentials(t *testing.T) Credentials {
	t.Helper()
	c, err := NewCredentials("robot", "tls://hub.example.com", someHash)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCredentialsRoundTrip(t *testing.T) {
	c, path := newCredentials(t), filepath.Join(t.TempDir(), "robot.creds")
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	got, err := ReadCredentials(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.text() != c.text() || got.Hub != "tls://hub.example.com:4222" || got.Host != "robot" || !bytes.Equal(got.Certificate, someHash) {
		t.Errorf("got %s, %x, want what was written", got, got.Certificate)
	}
	mine, _ := c.PublicKey()
	if theirs, err := got.PublicKey(); theirs != mine || err != nil {
		t.Errorf("got public key %s, %v, want %s", theirs, err, mine)
	}
}

func TestCredentialsFileIsNotOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "robot.creds")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newCredentials(t).Write(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("got %q, want the file as it was", text)
	}
}

func TestCredentialsShowNoSecret(t *testing.T) {
	c := newCredentials(t)
	seed := string(c.seed())
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, value := range []any{c, &c, struct{ C Credentials }{c}} {
			if text := fmt.Sprintf(format, value); strings.Contains(text, seed) || strings.Contains(text, fmt.Sprintf("%x", seed)) {
				t.Errorf("%s shows the seed: %s", format, text)
			}
		}
	}
}

func TestCredentialsReadableByGroupAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "robot.creds")
	if err := newCredentials(t).Write(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	_, err := ReadCredentials(path)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "chmod 600 "+path) {
		t.Errorf("got %v, want fs.ErrPermission with its cure", err)
	}
}

func TestCredentialsErrorNamesLine(t *testing.T) {
	good := newCredentials(t).text()
	seed := string(newCredentials(t).seed())
	for _, c := range []struct{ old, new, want string }{
		{"host: robot", "host robot", ":2: want each of"},
		{"host: robot", "host: a b", ":2: host: host \"a b\": want a name without spaces and /"},
		{"host: robot", "host: " + strings.Repeat("a", 64), "longer than 63 bytes"},
		{"host: robot\n", "", ": the line 'host: ...' is missing"},
		{"host: robot", "host: robot\nhost: other", ":3: want each of"},
		{"tls://", "nats://", ":3: hub: \"nats://hub.example.com:4222\": want tls://HOST or tls://HOST:PORT"},
		{"certificate: sha256:ab", "certificate: sha256:", ":4: certificate: want sha256: and 64 hexadecimal digits"},
		{"certificate: ", "fingerprint: ", ":4: fingerprint: no such key"},
		{"seed: SU", "seed: SA", ":5: seed: it is damaged"},
		{"seed: SU", "sead: SU", ":5: sead: no such key"},
		{good, "", ": the line 'host: ...' is missing"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		_, err := parseCredentials(text)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), copyAgain) {
			t.Errorf("%q for %q: got %v, want %s and the cure", c.new, c.old, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), seed[2:]) {
			t.Errorf("the error shows the seed: %v", err)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"tls://hub":             "tls://hub:4222",
		"tls://hub:443":         "tls://hub:443",
		"tls://[2001:db8::1]":   "tls://[2001:db8::1]:4222",
		"tls://hub.example.com": "tls://hub.example.com:4222",
		"hub":                   "",
		"nats://hub":            "",
		"tls://a@hub":           "",
		"tls://hub/x":           "",
		"tls://":                "",
		"tls://hub:x":           "",
	} {
		if got, err := ParseAddress(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzCredentialsRoundTrip(f *testing.F) {
	c, err := NewCredentials("robot", "tls://hub", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(c.text())
	f.Add("host: a\nhub: tls://b\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseCredentials(text)
		if err != nil {
			return
		}
		again, err := parseCredentials(got.text())
		if err != nil || again.text() != got.text() {
			t.Errorf("%q: read again: %v, %v", text, again, err)
		}
	})
}
