package hub

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"achbridge/bridge/hub"
	"achbridge/cmd/achbridge/ui"
)

// Directory is the path of a hub's files: its address for hosts, its certificate and key, and
// the public keys of its hosts. The directory has mode 0700, its files have 0600. The files
// belong to the owner of the directory, so that root may add hosts to a hub of another user.
//
// The directory may also be for a nats-server that others run. Then it has no key. It has a
// certificate only if the system roots do not verify that server.
type Directory string

func (d Directory) address() string     { return filepath.Join(string(d), "address") }
func (d Directory) foreign() string     { return filepath.Join(string(d), "nats-server") }
func (d Directory) certificate() string { return filepath.Join(string(d), "certificate") }
func (d Directory) key() string         { return filepath.Join(string(d), "key") }
func (d Directory) hosts() string       { return filepath.Join(string(d), "hosts") }

// Socket returns the path of a running hub's control socket.
func (d Directory) Socket() string { return filepath.Join(string(d), "hub.sock") }

// Init creates the files of a hub that hosts dial at address, tls://HOST or tls://HOST:PORT. If
// the hub exists, it returns fs.ErrExist.
func (d Directory) Init(address string) (Identity, error) {
	certificate, key, err := newCertificate()
	if err != nil {
		return Identity{}, ui.Failure(err, "")
	}
	// The key is written last: a hub exists once it has a key. Init replaces an incomplete hub.
	return d.init(address, []file{{d.address(), ""}, {d.certificate(), certificate}, {d.hosts(), hostsHead}, {d.key(), key}})
}

// InitForeign creates the directory for a nats-server that others run. certificate is PEM text,
// or "" if the system roots verify the server.
func (d Directory) InitForeign(address, certificate string) (Identity, error) {
	files := []file{{d.hosts(), hostsHead}, {d.foreign(), ""}}
	if certificate != "" {
		if _, err := hashOf(certificate); err != nil {
			return Identity{}, ui.Usage(err, "name a file with one certificate, in PEM")
		}
		files = append([]file{{d.certificate(), certificate}}, files...)
	}
	return d.init(address, files)
}

// file is a file of the hub directory. Empty text means the hub's address.
type file struct{ path, text string }

func (d Directory) init(address string, files []file) (Identity, error) {
	if !strings.Contains(address, "://") {
		address = "tls://" + address
	}
	at, err := hub.ParseAddress(address)
	if err != nil {
		return Identity{}, ui.Usage(fmt.Errorf("address %w", err), "achbridge hub init hub.example.com")
	}
	for _, path := range []string{d.key(), d.foreign()} {
		if _, err := os.Lstat(path); err == nil {
			return Identity{}, ui.Failure(fmt.Errorf("hub %s: exists already%.0w", d, fs.ErrExist), "use it as it is, or choose another place: --dir DIR")
		}
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return Identity{}, ui.Failure(fmt.Errorf("hub: %w", err), "choose another place: --dir DIR")
	}
	for _, f := range files {
		if err := d.replace(f.path, cmp.Or(f.text, at+"\n")); err != nil {
			return Identity{}, ui.Failure(fmt.Errorf("hub: %w", err), "choose another place: --dir DIR")
		}
	}
	return d.Identity()
}

// replace writes a file that only the owner of the directory can read. The owner may be less trusted than root, and may create
// links in the directory meanwhile. So the file gets its owner and mode before its name, and all access is relative to the open
// directory.
func (d Directory) replace(path, text string) error {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return err
	}
	defer root.Close()
	next := fmt.Sprintf(".%s-%016x", filepath.Base(path), rand.Uint64())
	f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil && os.Getuid() == 0 {
		err = giveToOwner(f, root)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(next, filepath.Base(path))
	}
	if err != nil {
		_ = root.Remove(next) // the file may not exist
	}
	return err
}

// giveToOwner gives the open file f to the owner of the directory.
func giveToOwner(f *os.File, root *os.Root) error {
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

// Identity is the address and the certificate by which hosts identify a hub.
type Identity struct {
	Address     string // tls://HOST:PORT
	Certificate tls.Certificate
	Hash        []byte // SHA-256 of the certificate; nil means that the system roots verify it
	Foreign     bool   // the hub is a nats-server that others run
}

// HashText returns the hash in the form of credentials, or "" without a hash.
func (id Identity) HashText() string {
	if id.Hash == nil {
		return ""
	}
	return fmt.Sprintf("sha256:%x", id.Hash)
}

// Identity reads the hub's identity from the files that Init wrote. Its errors include the fix.
func (d Directory) Identity() (Identity, error) {
	id, problems := d.examine()
	if len(problems) > 0 {
		return id, problems[0]
	}
	return id, nil
}

// examine reads the hub's identity and returns all problems of its files.
func (d Directory) examine() (id Identity, problems []error) {
	info, err := os.Stat(string(d))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return id, []error{ui.NotFound(fmt.Errorf("hub %s: not found", d), "achbridge hub init ADDRESS, or name its directory: --dir DIR")}
	case err != nil:
		return id, []error{ui.Failure(fmt.Errorf("hub: %w", err), "run it as the owner of the directory")}
	case info.Mode().Perm()&0o077 != 0:
		problems = append(problems, ui.Usage(fmt.Errorf("hub %s: mode %04o gives others access", d, info.Mode().Perm()), "chmod 700 "+string(d)))
	}
	report := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	path := d.address()
	if _, err := os.Lstat(d.foreign()); err == nil {
		id.Foreign, path = true, d.foreign()
	}
	text, err := d.read(path)
	report(err)
	if err == nil {
		if id.Address, err = hub.ParseAddress(strings.TrimSpace(text)); err != nil {
			report(ui.Usage(fmt.Errorf("%s: %w", path, err), "write the address there by which hosts reach this hub"))
		}
	}
	if id.Foreign {
		report(d.foreignCertificate(&id))
	} else {
		problems = append(problems, d.ownCertificate(&id)...)
	}
	_, err = d.Hosts()
	report(err)
	return id, problems
}

func (d Directory) ownCertificate(id *Identity) (problems []error) {
	certificate, err1 := d.read(d.certificate())
	key, err2 := d.read(d.key())
	for _, err := range []error{err1, err2} {
		if err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) > 0 {
		return problems
	}
	var err error
	if id.Certificate, id.Hash, err = parseCertificate(certificate, key); err != nil {
		return []error{ui.Usage(fmt.Errorf("hub %s: %w", d, err), "take both files from your copy; a new hub has another certificate, and its hosts need new credentials")}
	}
	return nil
}

func (d Directory) foreignCertificate(id *Identity) error {
	if _, err := os.Lstat(d.certificate()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	text, err := d.read(d.certificate())
	if err != nil {
		return err
	}
	if id.Hash, err = hashOf(text); err != nil {
		return ui.Usage(fmt.Errorf("%s: %w", d.certificate(), err), "put the server's certificate there, in PEM")
	}
	return nil
}

// maxFile limits the size of a file, in bytes. It has room for maxHosts lines.
const maxFile = 4 << 20

// read reads a regular file that only its owner may access. It does not follow links: otherwise the directory's owner could
// have root read a file that the owner may not read.
func (d Directory) read(path string) (string, error) {
	name := filepath.Base(path)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", ui.NotFound(fmt.Errorf("hub %s: it has no file %s", d, name), "achbridge hub init ADDRESS, or take the file from your copy")
	case errors.Is(err, syscall.ELOOP):
		return "", ui.Usage(fmt.Errorf("%s: a link, which is not followed", path), "put the file itself there")
	case err != nil:
		return "", ui.Failure(fmt.Errorf("hub: %w", err), "run it as the owner of the directory")
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", ui.Failure(fmt.Errorf("hub: %w", err), "")
	case !info.Mode().IsRegular():
		return "", ui.Usage(fmt.Errorf("%s: not a regular file", path), "take it from your copy")
	case info.Mode().Perm()&0o077 != 0:
		return "", ui.Usage(fmt.Errorf("%s: mode %04o gives others access", path, info.Mode().Perm()), "chmod 600 "+path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", ui.Failure(fmt.Errorf("hub: %w", err), "run it as the owner of the directory")
	case len(text) > maxFile:
		return "", ui.Usage(fmt.Errorf("%s: larger than %s", path, ui.Bytes(maxFile)), "take it from your copy")
	}
	return string(text), nil
}
