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

// Config configures a lab. Hosts must not be empty.
type Config struct {
	Hosts []string
	// Link has the parameters for the egress of every host, in the text form of
	// testnet.ParseParams: "delay=10ms,rate=1mbit". An empty Link is perfect. If
	// it has a trace, the first host sends by it and the others by the trace of
	// the reverse direction.
	Link string
	// Seed is the seed of all random decisions of the links.
	Seed uint64
}

// ErrPrivilege means that this process may not create namespaces or TAP devices.
// Errors that wrap it suggest a fix.
var ErrPrivilege = errors.New("not permitted")

const maxHosts = 250 // maximum number of hosts in one IPv4 /24

// Lab is a running set of hosts. It is safe for concurrent use.
type Lab struct {
	names []string
	nodes []*node
	net   *ethernet

	mu       sync.Mutex
	commands []*Cmd
}

// Start starts the hosts and their network, and returns when all have their
// addresses. The program must have called Main. The lab ends with Close, or with
// this process.
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

// Permitted returns nil if this process may start a lab. Otherwise the error wraps
// ErrPrivilege and suggests a fix, or wraps fs.ErrNotExist if the machine has no TAP
// devices.
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

// Hosts returns the names of the hosts.
func (l *Lab) Hosts() []string { return slices.Clone(l.names) }

// Change changes those parameters of a target that text has. A target is a host (its
// egress; cut and up apply to both directions), a direction "robot>pc", or "" for
// all.
func (l *Lab) Change(target, text string) error { return l.net.change(target, text) }

// Settings returns the current parameters and the counts of packets.
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

// PID returns the process id of the host's first process, for Enter.
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

// Close kills all processes of all hosts, and returns when they have ended and with
// them the namespaces, mounts and devices.
func (l *Lab) Close() error {
	for _, n := range l.nodes {
		n.stop()
	}
	// A host ends only when its processes are reaped, and their parent may be this process.
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
