package hosts

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"achbridge/testnet"
)

// Config describes a lab. Hosts must be named; a zero Link is perfect.
type Config struct {
	Hosts []string
	// Link holds for the egress of every host, in the text form of
	// testnet.ParseParams: "delay=10ms,rate=1mbit". The first host sends by a
	// trace, the others by the one of the way back.
	Link string
	// Seed of everything random on the links.
	Seed uint64
}

// ErrPrivilege is why a lab cannot start where namespaces or TAP devices may
// not be made; the text around it says what to do.
var ErrPrivilege = errors.New("not permitted")

const maxHosts = 250 // of one IPv4 /24

// Lab is a running set of hosts. Safe for concurrent use.
type Lab struct {
	names []string
	nodes []*node
	net   *ethernet

	mu       sync.Mutex
	commands []*Cmd
}

// Start makes the hosts and their network and returns when all have their
// addresses. The program must call Main first. Close ends the lab; so does the
// end of this process, however it comes.
func Start(c Config) (*Lab, error) {
	p, err := c.check()
	if err != nil {
		return nil, err
	}
	if err := Permitted(); err != nil {
		return nil, err
	}
	if os.Getenv(mainEnv) != fmt.Sprint(os.Getpid()) {
		return nil, errors.New("hosts: call hosts.Main() first in main or TestMain: every host is a child of this program")
	}
	l := &Lab{names: slices.Clone(c.Hosts)}
	if err := l.start(c.Seed, p); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Lab) start(seed uint64, p testnet.Params) error {
	for _, name := range l.names {
		n, err := startNode(name)
		if err != nil {
			return fmt.Errorf("host %s: %w", name, err)
		}
		l.nodes = append(l.nodes, n)
	}
	var taps []*os.File
	for i, n := range l.nodes {
		tap, err := n.setUp(setup{Number: i, Hosts: l.names})
		if err != nil {
			closeAll(taps)
			return fmt.Errorf("host %s: %w", l.names[i], err)
		}
		taps = append(taps, tap)
	}
	var err error
	l.net, err = startEthernet(seed, l.names, p, taps)
	return err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Permitted tells whether this process may make hosts, with ErrPrivilege and
// the cure if not. Fs.ErrNotExist means that the machine has no TAP devices.
func Permitted() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("hosts need root for network namespaces: %w; run it with sudo, or as root in a container started with --privileged", ErrPrivilege)
	}
	f, err := os.OpenFile(tunPath, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hosts need TAP devices: %w; load the module (modprobe tun), or start the container with --device %s", err, tunPath)
	}
	if err != nil {
		return fmt.Errorf("hosts need TAP devices: %w: %w; start the container with --privileged or --device %s", err, ErrPrivilege, tunPath)
	}
	return f.Close()
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func (c Config) check() (testnet.Params, error) {
	var errs []error
	if len(c.Hosts) == 0 || len(c.Hosts) > maxHosts {
		errs = append(errs, fmt.Errorf("hosts: %d named; right is 1 to %d, such as robot,pc", len(c.Hosts), maxHosts))
	}
	for i, name := range c.Hosts {
		switch {
		case !hostName.MatchString(name):
			errs = append(errs, fmt.Errorf("hosts: %q is not a host name; right are up to 63 letters, digits, '-', '_' and '.'", name))
		case name == "cut" || name == "up" || name == "localhost":
			errs = append(errs, fmt.Errorf("hosts: %q has a meaning of its own; take another name", name))
		case slices.Contains(c.Hosts[:i], name):
			errs = append(errs, fmt.Errorf("hosts: %q is named twice", name))
		}
	}
	var p testnet.Params
	if c.Link != "" {
		var err error
		if p, err = testnet.ParseParams(c.Link); err != nil {
			errs = append(errs, err)
		}
	}
	return p, errors.Join(errs...)
}

// Hosts returns the names.
func (l *Lab) Hosts() []string { return slices.Clone(l.names) }

// Change edits the parameters of a target while the lab runs: a host (its
// egress; cut and up hold for both directions), a direction "robot>pc", or ""
// for all. What text does not name stays.
func (l *Lab) Change(target, text string) error { return l.net.change(target, text) }

// Settings lists the present parameters and what became of the packets.
func (l *Lab) Settings() []testnet.Setting { return l.net.settings() }

// Addr returns a host's IPv4 address.
func (l *Lab) Addr(host string) (netip.Addr, error) {
	i, err := l.find(host)
	return testnet.HostAddr4(i), err
}

// Addr6 returns a host's IPv6 address.
func (l *Lab) Addr6(host string) (netip.Addr, error) {
	i, err := l.find(host)
	return testnet.HostAddr6(i), err
}

// PID returns the process whose namespaces are the host's, for Enter.
func (l *Lab) PID(host string) (int, error) {
	i, err := l.find(host)
	if err != nil {
		return 0, err
	}
	return l.nodes[i].cmd.Process.Pid, nil
}

func (l *Lab) find(host string) (int, error) {
	i := slices.Index(l.names, host)
	if i < 0 {
		return 0, fmt.Errorf("no host %q; hosts are %s", host, strings.Join(l.names, ", "))
	}
	return i, nil
}

// Close kills every process of every host and returns when they are gone, and
// with them the namespaces, mounts and devices.
func (l *Lab) Close() error {
	for _, n := range l.nodes {
		n.stop()
	}
	// A host ends only after its processes were waited for, by their parent.
	l.mu.Lock()
	commands := l.commands
	l.mu.Unlock()
	for _, c := range commands {
		c.Wait()
	}
	for _, n := range l.nodes {
		n.cmd.Wait()
	}
	if l.net != nil {
		l.net.close()
	}
	return nil
}
