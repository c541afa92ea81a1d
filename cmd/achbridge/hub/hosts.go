package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nkeys"

	"achbridge/bridge/hub"
	"achbridge/cmd/achbridge/ui"
)

// Host is a host that may connect to the hub.
type Host struct {
	Name   string
	Public string // public key of the host, an nkey
}

const hostsHead = "# Hosts of this hub, a public key and a name on each line. achbridge hub add and remove write it.\n"

// maxHosts limits the hosts of a hub.
const maxHosts = 10_000

// errKnown is returned if the hub already has a host of that name.
var errKnown = errors.New("it is a host of this hub already")

// Hosts reads the hosts that may connect, in the order in which they were added.
func (d Directory) Hosts() ([]Host, error) {
	text, err := d.read(d.hosts())
	if err != nil {
		return nil, err
	}
	list, err := parseHosts(text)
	if err != nil {
		return nil, ui.Usage(fmt.Errorf("%s%w", d.hosts(), err), "remove the line, and add the host again: achbridge hub add HOST")
	}
	return list, nil
}

// parseHosts parses lines of the form KEY NAME. Its errors begin with ":LINE: ".
func parseHosts(text string) (list []Host, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, name, ok := strings.Cut(line, " ")
		switch {
		case !ok || !nkeys.IsValidPublicUserKey(key):
			return nil, fmt.Errorf(":%d: want a public key, U…, and a name", n)
		case slices.ContainsFunc(list, func(h Host) bool { return h.Name == name || h.Public == key }):
			return nil, fmt.Errorf(":%d: %s: its name or key is listed already", n, name)
		case len(list) == maxHosts:
			return nil, fmt.Errorf(":%d: more than %d hosts", n, maxHosts)
		}
		if err := hub.CheckHost(name); err != nil {
			return nil, fmt.Errorf(":%d: %w", n, err)
		}
		list = append(list, Host{name, key})
	}
	return list, nil
}

// Add lets a host connect, and writes its credentials to a file, which must not exist.
// A running hub takes the host at once.
func (d Directory) Add(host, path string) error {
	id, err := d.Identity()
	if err != nil {
		return err
	}
	c, err := hub.NewCredentials(host, id.Address, id.Hash)
	if err != nil {
		return ui.Usage(err, "achbridge hub add robot")
	}
	public, err := c.PublicKey()
	if err != nil {
		return ui.Failure(err, "")
	}
	return d.change(func(list []Host) ([]Host, error) {
		if slices.ContainsFunc(list, func(h Host) bool { return h.Name == host }) {
			return nil, ui.Failure(fmt.Errorf("host %s: %w", host, errKnown), "achbridge hub remove "+host+" first: its old credentials end with that")
		}
		if err := c.Write(path); err != nil {
			return nil, ui.Failure(err, "choose another place: --out FILE")
		}
		return append(list, Host{host, public}), nil
	})
}

// Remove removes a host from the hub. A running hub disconnects the host within a second.
// If there is no such host, Remove returns fs.ErrNotExist.
func (d Directory) Remove(host string) error {
	if _, err := d.Identity(); err != nil {
		return err
	}
	return d.change(func(list []Host) ([]Host, error) {
		left := slices.DeleteFunc(slices.Clone(list), func(h Host) bool { return h.Name == host })
		if len(left) == len(list) {
			return nil, ui.NotFound(fmt.Errorf("host %s: it is not a host of this hub%.0w", host, fs.ErrNotExist), "achbridge hub ls shows its hosts")
		}
		return left, nil
	})
}

// lockWait limits how long a change waits for another one. Any process of the directory's owner can hold the lock indefinitely.
const lockWait = 5 * time.Second

// change replaces the list of hosts by the result of edit. It waits for a concurrent change, for at most lockWait.
func (d Directory) change(edit func([]Host) ([]Host, error)) error {
	lock, err := os.Open(string(d))
	if err != nil {
		return ui.Failure(fmt.Errorf("hub: %w", err), "run it as the owner of the directory")
	}
	defer lock.Close()
	switch err := lockFor(lock, lockWait); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return ui.Failure(fmt.Errorf("hub %s: its lock is held: %w", d, err), "end the other achbridge hub add or remove; fuser "+string(d)+" shows which processes have it open")
	case err != nil:
		return ui.Failure(fmt.Errorf("hub %s: it cannot be locked: %w", d, err), "put it on a file system that has locks")
	}
	list, err := d.Hosts()
	if err != nil {
		return err
	}
	if list, err = edit(list); err != nil {
		return err
	}
	text := hostsHead
	for _, h := range list {
		text += h.Public + " " + h.Name + "\n"
	}
	if err := d.replace(d.hosts(), text); err != nil {
		return ui.Failure(fmt.Errorf("hub: %w", err), "run it as the owner of the directory")
	}
	return nil
}

// lockFor locks an open directory, and waits for the lock for at most most.
func lockFor(dir *os.File, most time.Duration) error {
	const again = 10 * time.Millisecond
	for waited := time.Duration(0); ; waited += again {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || waited >= most {
			return err
		}
		time.Sleep(again)
	}
}
