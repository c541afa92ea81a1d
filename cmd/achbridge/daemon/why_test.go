package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"achbridge/bridge/status"
	"achbridge/discovery"
	"achbridge/testnet/await"
)

func TestWhyResolvesNames(t *testing.T) {
	now := status.Report{Mirrors: []status.Mirror{{Host: "robot", Channel: "imu", Name: "robot.imu"}}}
	for of, want := range map[string]struct {
		name, host, channel string
		self                bool
	}{
		"robot/imu":       {"robot.imu", "robot", "imu", false},
		"ach://robot/imu": {"robot.imu", "robot", "imu", false},
		"robot.imu":       {"robot.imu", "robot", "imu", false},
		"robot/legs":      {"", "robot", "legs", false},
		"goal":            {"goal", "pc", "goal", true},
		"pc/goal":         {"goal", "pc", "goal", true},
	} {
		host, channel, name, err := channelOf(of, now, "pc")
		if err != nil || name != want.name || host != want.host || channel != want.channel || (host == "pc") != want.self {
			t.Errorf("%s: got %q %q %q, %v", of, name, host, channel, err)
		}
	}
	for _, of := range []string{"", "robot/*", "*/imu", "a/b/c", "/imu", "robot/"} {
		if _, _, _, err := channelOf(of, now, "pc"); err == nil {
			t.Errorf("%q: got no error", of)
		}
	}
}

// Packets to one of a host's addresses may be lost, so the probe tries all addresses.
func TestProbeFindsHostAtAnyAddress(t *testing.T) {
	listen := func() net.PacketConn {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	silent, answers := listen(), listen()
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := answers.ReadFrom(b)
			if err != nil {
				return
			}
			clear(b[1:5]) // version 0 makes the packet a version negotiation
			answers.WriteTo(b[:n], from)
		}
	}()
	want := answers.LocalAddr().String()
	if got := firstAnswering(await.Context(t), []string{silent.LocalAddr().String(), want}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A probe may work on an interface where the kernel did not let the daemon join the group.
func TestWhyUsesMulticastStateOfDaemon(t *testing.T) {
	joined := []discovery.Probe{{Interface: "lo"}, {Interface: "radio0", Err: errors.New("no buffer space available")}}
	got := multicastProblems(t.Context(), []string{"lo"}, joined)
	if want := []string{"radio0 (IPv4): the daemon does not receive multicast: no buffer space available"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCPUQuotaIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"none":    {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}, ""},
		"its own": {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "50000 100000\n"}, ", of which a CPU quota allows the daemon 0.5 (cpu.max of control group /a)"},
		"a parent's": {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n", "sys/fs/cgroup/a/cpu.max": "150000 100000\n"},
			", of which a CPU quota allows the daemon 1.5 (cpu.max of control group /a)"},
		"container": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "20000 100000\n"}, ", of which a CPU quota allows the daemon 0.2 (cpu.max of control group /)"},
		"version 1": {map[string]string{"proc/self/cgroup": "4:memory:/m\n3:cpu,cpuacct:/a\n0::/\n", "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "25000\n", "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"},
			", of which a CPU quota allows the daemon 0.25 (cpu.cfs_quota_us of control group /a)"},
		"version 1 without limit": {map[string]string{"proc/self/cgroup": "3:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, ""},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := quotaText(root); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
