package trust

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestKeyFileRoundTripIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	key := NewKey()
	if err := key.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.text() != key.text() {
		t.Error("key read back differs")
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("mode: got %v, want 0600", info.Mode())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) != len("achkey1-")+43+1 || !strings.HasPrefix(string(text), "achkey1-") || text[len(text)-1] != '\n' {
		t.Errorf("file: got %d bytes of another form", len(text))
	}
}

func TestKeyFileIsNeverOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	old := NewKey()
	if err := old.Write(path); err != nil {
		t.Fatal(err)
	}
	err := NewKey().Write(path)
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("write over a key: got %v, want fs.ErrExist naming the file", err)
	}
	if got, err := ReadKey(path); err != nil || got.text() != old.text() {
		t.Errorf("the old key is gone: %v", err)
	}
	if err := (Key{}).Write(filepath.Join(t.TempDir(), "key")); err == nil {
		t.Error("writing no key: no error")
	}
	if err := old.Write(filepath.Join(t.TempDir(), "no", "key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("write into a missing directory: got %v, want fs.ErrNotExist", err)
	}
}

func TestBadKeyFileErrorNamesFix(t *testing.T) {
	good := NewKey().text()
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		make func(path string) error
		want []string
		is   error
	}{
		{"missing", func(string) error { return nil }, []string{"achbridge key new"}, fs.ErrNotExist},
		{"group-readable", fileOf(good, 0o640), []string{"0640", "chmod 600"}, fs.ErrPermission},
		{"world-writable", fileOf(good, 0o602), []string{"0602", "chmod 600"}, fs.ErrPermission},
		{"directory", func(path string) error { return os.Mkdir(path, 0o700) }, []string{"not a regular file"}, nil},
		{"fifo", func(path string) error { return syscall.Mkfifo(path, 0o600) }, []string{"not a regular file"}, nil},
		{"empty", fileOf("", 0o600), []string{"not a key file", "achbridge key new"}, nil},
		{"cut-short", fileOf(good[:30], 0o600), []string{"not a key file"}, nil},
		{"too-long", fileOf(good+good, 0o600), []string{"not a key file"}, nil},
		{"huge", fileOf(strings.Repeat("achkey1-", 1<<20), 0o600), []string{"not a key file"}, nil},
		{"another-version", fileOf("achkey2-"+good[8:], 0o600), []string{"not a key file"}, nil},
		{"standard-base64", fileOf("achkey1-"+strings.Repeat("+", 43), 0o600), []string{"not a key file"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, c.name)
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			_, err := ReadKey(path)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(c.want, path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error: got %q, want %q in it", err, want)
				}
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error: got %v, want %v", err, c.is)
			}
			if strings.Contains(err.Error(), good[8:30]) {
				t.Error("the error shows the key")
			}
		})
	}
}

func fileOf(text string, mode fs.FileMode) func(string) error {
	return func(path string) error {
		return errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode))
	}
}

func TestKeyIsNeverShown(t *testing.T) {
	key := NewKey()
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("start", "key", key, "config", struct{ Key Key }{key})
	type hidden struct{ key Key } // fmt calls no methods on unexported fields
	asJSON, err := json.Marshal(map[string]any{"key": key, "config": hidden{key}})
	if err != nil {
		t.Fatal(err)
	}
	shown := log.String() + string(asJSON)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%c", "%U", "%T", "%p", "%08.3f"} {
		shown += fmt.Sprintf(format+format+format+format, key, &key, hidden{key}, []any{key, struct{ Key Key }{key}})
	}
	for _, secret := range []string{
		base64.RawURLEncoding.EncodeToString(key.keyring().secrets[0])[:8],
		base64.StdEncoding.EncodeToString(key.keyring().secrets[0])[:8],
		hex.EncodeToString(key.keyring().secrets[0])[:8],
		strings.ToUpper(hex.EncodeToString(key.keyring().secrets[0])[:8]),
		strings.Trim(fmt.Sprint(key.keyring().secrets[0][:4]), "[]"),
		string(key.keyring().secrets[0][:4]),
	} {
		if strings.Contains(shown, secret) {
			t.Errorf("the key is visible as %q", secret)
		}
	}
	if !strings.Contains(log.String(), "key of network "+key.Network()) {
		t.Errorf("log: got %q, want the network in it", log.String())
	}
}

func TestNetworkNamesTheKey(t *testing.T) {
	fixed, err := ParseKey("achkey1-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n")
	if err != nil {
		t.Fatal(err)
	}
	// Another implementation of HKDF and Ed25519 (Python's cryptography) gives this name.
	// If it changed, new versions could not join networks of old ones.
	if got, want := fixed.Network(), "0df4bb8e"; got != want {
		t.Errorf("network of the key 00..1f: got %s, want %s", got, want)
	}
	if a, b := NewKey().Network(), NewKey().Network(); a == b || !IsNetwork(a) {
		t.Errorf("two keys: got networks %q and %q", a, b)
	}
	if got := (Key{}).Network(); got != "" {
		t.Errorf("no key: got network %q", got)
	}
}

func FuzzKeyFile(f *testing.F) {
	f.Add(NewKey().text())
	f.Add("achkey1-")
	f.Add("achkey1-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
	f.Add("achkey1-AAECAwQFBgcICQoL\nDA0ODxAREhMUFRYXGBkaGxwdHh8\n")
	f.Fuzz(func(t *testing.T, text string) {
		key, err := ParseKey(text)
		if err != nil {
			if key.keyring != nil {
				t.Error("got an error and a key, want only an error")
			}
			return
		}
		if got, want := key.text(), strings.TrimRight(text, " \t\r\n")+"\n"; got != want {
			t.Errorf("key of %q writes itself as %q", want, got)
		}
	})
}

// must returns the key, or panics on an error.
func must(k Key, err error) Key {
	if err != nil {
		panic(err)
	}
	return k
}

func TestKeysAreAddedSwappedAndDropped(t *testing.T) {
	old, next := NewKey(), NewKey()
	both := must(old.Add(next))
	if got, want := strings.Join(both.Networks(), " "), old.Network()+" "+next.Network(); got != want {
		t.Errorf("two keys: got networks %s, want %s", got, want)
	}
	if got, want := must(both.Swap()).Network(), next.Network(); got != want {
		t.Errorf("swapped: got network %s, want %s", got, want)
	}
	if got, want := must(must(both.Swap()).Drop()).text(), next.text(); got != want {
		t.Error("swapped and dropped is not the new key")
	}
	for name, change := range map[string]func() (Key, error){
		"third":    func() (Key, error) { return both.Add(NewKey()) },
		"swap one": old.Swap,
		"drop one": old.Drop,
	} {
		if _, err := change(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := both.Replace(path); err == nil {
		t.Error("replacing a missing key: got no error, want one")
	}
	if err := errors.Join(old.Write(path), both.Replace(path)); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadKey(path); err != nil || got.text() != both.text() {
		t.Errorf("replaced: got another key, %v", err)
	}
}
