package testnet_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const domain = "robots.example.com"

func needDnsmasq(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("dnsmasq"); err != nil {
		t.Skip("no name server: install the Debian package dnsmasq-base")
	}
}

// nameServer is a dnsmasq on a host of a lab, whose zone lists robots.
type nameServer struct {
	*site
	host string
	run  *process
}

// serve starts the name server, in the place of an earlier one, with the options
// given, and has hosts ask it.
func (n *nameServer) serve(options ...string) {
	n.t.Helper()
	if n.run != nil {
		n.run.kill()
	}
	args := []string{"--keep-in-foreground", "--conf-file=/dev/null", "--pid-file", "--user=root", "--log-facility=-",
		"--no-resolv", "--no-hosts", "--local=/" + domain + "/", "--local-ttl=1"}
	cmd := n.lab.Command(n.host, "dnsmasq", append(args, options...)...)
	n.run = &process{t: n.t, Cmd: cmd, began: time.Now()}
	cmd.Stderr = &n.run.log
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.run.awaitLog("started", 10*time.Second)
}

func (n *nameServer) use(hosts ...string) {
	n.t.Helper()
	addr, err := n.lab.Addr(n.host)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, host := range hosts {
		script := `echo "nameserver $0" >/etc/resolv.conf`
		if out, err := n.lab.Command(host, "sh", "-c", script, addr.String()).CombinedOutput(); err != nil {
			n.t.Fatalf("resolv.conf of %s: %v\n%s", host, err, out)
		}
	}
}

// listing are the records of a robot at a host's address.
func (n *nameServer) listing(robot, host string, port int, txt ...string) []string {
	n.t.Helper()
	addr, err := n.lab.Addr(host)
	if err != nil {
		n.t.Fatal(err)
	}
	instance := fmt.Sprintf("%s._achbridge._udp.%s", robot, domain)
	records := []string{
		fmt.Sprintf("--ptr-record=_achbridge._udp.%s,%s", domain, instance),
		fmt.Sprintf("--srv-host=%s,%s.%s,%d", instance, host, domain, port),
		fmt.Sprintf("--host-record=%s.%s,%v", host, domain, addr),
	}
	if len(txt) > 0 {
		records = append(records, fmt.Sprintf("--txt-record=%s,%s", instance, strings.Join(txt, ",")))
	}
	return records
}

func TestHostsOfADomainAreFoundWithoutMulticast(t *testing.T) {
	needDnsmasq(t)
	s := newSite(t, "robot", "pc", "names")
	air := listenToAir(s.lab)
	ns := &nameServer{site: s, host: "names"}
	ns.use("pc")
	s.publish("robot", "imu:200:64", "joints:50:3000")
	robot := s.run("robot", "--no-discovery", "--name", "krang")

	// The daemon is there before the name server.
	pc := s.run("pc", "--no-discovery", "--domain", domain, "--mirror", "krang/*")
	pc.awaitLog("domain cannot be read", met)
	ns.serve(ns.listing("krang", "robot", 8076)...)
	readers := s.observe("pc", "keep:krang.imu")
	t.Logf("found and mirrored after %v", readers.follows(now(), 2*met, "keep:krang.imu"))

	robot.kill()
	s.run("robot", "--no-discovery", "--name", "krang", "--listen", ":9000")
	ns.serve(ns.listing("krang", "robot", 9000)...)
	t.Logf("followed to another port after %v", readers.follows(now(), 2*met, "keep:krang.imu"))

	ns.run.kill()
	time.Sleep(3 * time.Second) // a name server that is down for some of its records' lives is what is tried
	readers.follows(now(), resumed, "keep:krang.imu")
	if n, _ := air.between(pc.began, time.Now()); n != 0 {
		t.Errorf("got %d multicast packets, want none", n)
	}
}

func TestLsSearchesADomain(t *testing.T) {
	needDnsmasq(t)
	s := newSite(t, "robot", "pc", "names")
	ns := &nameServer{site: s, host: "names"}
	ns.use("pc")
	told := ns.listing("krang", "robot", 8076, "v=1", "net="+s.network("pc"), "node="+strings.Repeat("a1", 16), "ch.imu=16x64", "more=3")
	ns.serve(append(told, ns.listing("arm", "robot", 8080)...)...)
	stdout, stderr, code := s.verb("pc", "ls", "--domain", domain)
	addr, _ := s.lab.Addr("robot")
	if code != codeOK || !strings.Contains(stdout, "krang/imu") || !strings.Contains(stdout, addr.String()+":8076") {
		t.Errorf("got exit code %d and %q, want krang/imu at %v", code, stdout, addr)
	}
	for _, want := range []string{"krang has 3 more channels", "arm is listed by its domain, which does not tell its channels"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("got %q, want that %s", stderr, want)
		}
	}
}

// network is the id of the network that a host has the key of.
func (s *site) network(host string) string {
	s.t.Helper()
	var shown struct{ Network string }
	if err := json.Unmarshal([]byte(s.must(host, "key", "show", "--json")), &shown); err != nil || shown.Network == "" {
		s.t.Fatalf("network of %s: %v", host, err)
	}
	return shown.Network
}
