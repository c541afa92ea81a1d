package testnet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/testnet/need"
)

const domain = "robots.example.com"

// nameServer is a dnsmasq on a host, whose zone lists robots.
type nameServer struct {
	*site
	host string
	run  *process
}

// serve starts the name server with the given options. It replaces an earlier one.
func (n *nameServer) serve(options ...string) {
	n.t.Helper()
	if n.run != nil {
		n.run.kill()
	}
	args := []string{"--keep-in-foreground", "--conf-file=/dev/null", "--pid-file", "--user=root", "--log-facility=-",
		"--no-resolv", "--no-hosts", "--local=/" + domain + "/", "--local-ttl=1"}
	n.run = n.start(n.host, need.Program(n.t, "dnsmasq", "dnsmasq-base"), append(args, options...)...)
	n.run.awaitLog("started")
}

// use makes a host query the name server.
func (n *nameServer) use(host string) {
	n.t.Helper()
	n.shell(host, `echo "nameserver $0" >/etc/resolv.conf`, n.addr(n.host))
}

// records returns the options for the records of a robot at a host's address.
func (n *nameServer) records(robot, host string, port int, txt ...string) []string {
	n.t.Helper()
	instance := fmt.Sprintf("%s._achbridge._udp.%s", robot, domain)
	records := []string{
		fmt.Sprintf("--ptr-record=_achbridge._udp.%s,%s", domain, instance),
		fmt.Sprintf("--srv-host=%s,%s.%s,%d", instance, host, domain, port),
		fmt.Sprintf("--host-record=%s.%s,%s", host, domain, n.addr(host)),
	}
	if len(txt) > 0 {
		records = append(records, fmt.Sprintf("--txt-record=%s,%s", instance, strings.Join(txt, ",")))
	}
	return records
}

func TestDomainFindsHostsWithoutMulticast(t *testing.T) {
	need.Long(t)
	s := newSite(t, "robot", "pc", "names")
	air := captureMDNS(s.lab)
	ns := &nameServer{site: s, host: "names"}
	ns.use("pc")
	s.publish("robot", imu, joints)
	robot := s.run("robot", "--no-discovery", "--name", "krang")

	// The daemon starts before the name server.
	pc := s.run("pc", "--no-discovery", "--domain", domain, "--mirror", "krang/*")
	pc.awaitLog("cannot read domain")
	ns.serve(ns.records("krang", "robot", 8076)...)
	readers := s.observe("pc", "keep:krang.imu")
	t.Logf("found and mirrored after %v", readers.waitUntilFollowing(now(), 2*meetLimit, "keep:krang.imu"))

	robot.kill()
	s.run("robot", "--no-discovery", "--name", "krang", "--listen", ":9000")
	ns.serve(ns.records("krang", "robot", 9000)...)
	t.Logf("followed to another port after %v", readers.waitUntilFollowing(now(), 2*meetLimit, "keep:krang.imu"))

	ns.run.kill()
	time.Sleep(3 * time.Second) // keep the name server down for several TTLs of its records
	readers.waitUntilFollowing(now(), resumeLimit, "keep:krang.imu")
	if n, _ := air.between(pc.began, time.Now()); n != 0 {
		t.Errorf("got %d multicast packets, want none", n)
	}
}

func TestLsSearchesADomain(t *testing.T) {
	s := newSite(t, "robot", "pc", "names")
	ns := &nameServer{site: s, host: "names"}
	ns.use("pc")
	withTXT := ns.records("krang", "robot", 8076, "v=1", "net="+s.network, "node="+strings.Repeat("a1", 16), "ch.imu=16x64", "more=3")
	ns.serve(append(withTXT, ns.records("arm", "robot", 8080)...)...)
	stdout, stderr, code := s.achbridge("pc", "ls", "--domain", domain)
	if code != codeOK || !strings.Contains(stdout, "krang/imu") || !strings.Contains(stdout, s.addr("robot")+":8076") {
		t.Errorf("ls --domain = %q and exit code %d, want krang/imu at %s", stdout, code, s.addr("robot"))
	}
	for _, want := range []string{"krang has 3 more channels", "arm is listed by its domain, which does not tell its channels"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("got %q, want that %s", stderr, want)
		}
	}
}
