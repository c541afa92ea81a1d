package testnet_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// doctorLine is one line of the output of achbridge doctor.
type doctorLine struct{ Check, State, Text, Cure string }

// doctor runs achbridge doctor on a host and returns its lines by name, and the exit code.
func (s *site) doctor(host string) (map[string]doctorLine, int) {
	s.t.Helper()
	stdout, stderr, code := s.achbridge(host, "doctor", "--json")
	var report struct{ Checks []doctorLine }
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		s.t.Fatalf("doctor on %s: %v\n%s%s", host, err, stdout, stderr)
	}
	list := map[string]doctorLine{}
	for _, c := range report.Checks {
		list[c.Check] = c
	}
	return list, code
}

// Checks a host without problems, then one problem after the other.
func TestDoctorFindsProblems(t *testing.T) {
	need.Long(t)
	need.Program(t, "nft", "nftables")
	s := newSite(t, "robot", "pc")
	s.publish("robot", "imu:20:64")
	s.run("robot").awaitLog("daemon started")
	pc := s.run("pc", "--mirror", "robot/*")
	pc.awaitLog("link up")
	peer, err := achPeer()
	if err != nil {
		t.Fatal(err)
	}
	s.must("pc", "channel", "create", "lonely")
	static := filepath.Join(s.bin, "static-peer")
	if out, err := exec.Command("cc", "-O2", "-pthread", "-static", "-o", static, "../localach/testdata/peer/channel.c", "../localach/testdata/peer/main.c").CombinedOutput(); err != nil {
		t.Fatalf("cc -static: %v\n%s", err, out)
	}
	s.observe("pc", keeping).waitUntilFollowing(now(), meetLimit, keeping)

	good, code := s.doctor("pc")
	for name, wantText := range map[string]string{
		"daemon": "as host pc", "key": "network ", "shared memory": "are free in /dev/shm", "channels": "2 channels, 1 of them mirrors",
		"libc": "2 processes share 2 channels", "ports": "the daemon listens at", "multicast": "works on eth0", "hosts": "there are robot", "paths": "to robot 1195 in a datagram over quic",
	} {
		if c := good[name]; c.State != "ok" || !strings.Contains(c.Text, wantText) {
			t.Errorf("%s: got %+v, want it good with %q in its text", name, c, wantText)
		}
	}
	if code != 0 {
		t.Errorf("got exit code %d of a good host, want 0\n%+v", code, good)
	}

	for _, c := range []struct {
		name, comes, goes      string
		holder                 []string // command that starts a program that holds a resource of the daemon
		by                     string   // the part of the text that names that program
		check, state, wantText string
	}{
		{name: "no multicast", comes: "ip link set eth0 multicast off", goes: "ip link set eth0 multicast on", check: "multicast", state: "failure", wantText: "no interface is up that can multicast"},
		{name: "firewall", comes: "nft add table ip t; nft 'add chain ip t in { type filter hook input priority 0; }'; nft add rule ip t in udp dport 5353 drop", goes: "nft delete table ip t",
			check: "multicast", state: "warning", wantText: "eth0 (IPv4): this host does not receive what it sends to the group"},
		{name: "full shared memory", comes: fill, goes: drain, check: "shared memory", state: "failure", wantText: "it is full"},
		{name: "little room", comes: "mount -o remount,size=8m /dev/shm", goes: "mount -o remount,size=128m /dev/shm", check: "shared memory", state: "warning", wantText: "mirrors may take half"},
		{name: "the room of a container", comes: "mount -o remount,size=64m /dev/shm", goes: "mount -o remount,size=128m /dev/shm", check: "shared memory", state: "warning", wantText: "--shm-size=1g"},
		{name: "small path", comes: "ip link set eth0 mtu 1200", goes: "ip link set eth0 mtu 1500", check: "paths", state: "failure", wantText: "eth0 carries 1200 bytes"},
		{
			name: "another PID namespace", holder: []string{"unshare", "--pid", "--fork", "--kill-child"}, by: peer,
			check: "libc", state: "failure", wantText: "different PID namespaces",
		},
		{name: "no C library", holder: []string{"setsid"}, by: static, check: "libc", state: "warning", wantText: "has an unknown C library"},
		{name: "read-only", comes: "mount -t tmpfs -o ro tmpfs /dev/shm", goes: "umount /dev/shm", check: "shared memory", state: "failure", wantText: "read-only"},
	} {
		var holder *process
		if c.comes != "" {
			s.shell("pc", c.comes)
		}
		if c.holder != nil {
			holder = s.startUnder("pc", c.holder, c.by, "/dev/shm/achshm-lonely", "hold", "600000")
		}
		await.NoError(t, func() error {
			list, code := s.doctor("pc")
			got := list[c.check]
			if got.State != c.state || !strings.Contains(got.Text+"\n"+got.Cure, c.wantText) || got.Cure == "" || (code == 1) != (c.state == "failure") {
				return fmt.Errorf("%s: exit code %d and %+v, want %s that tells %q", c.name, code, got, c.state, c.wantText)
			}
			t.Logf("%s: %s: %s\n  fix: %s", c.name, got.State, got.Text, got.Cure)
			return nil
		})
		if holder != nil {
			holder.kill()
		}
		if c.goes != "" {
			s.shell("pc", c.goes)
		}
	}
}
