package testnet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// startAvahi starts an avahi-daemon on a host, as Debian does. It uses the mDNS port
// and announces the host's name.
func (s *site) startAvahi(host string, options ...string) {
	s.t.Helper()
	bus := need.Program(s.t, "dbus-daemon", "dbus")
	daemon := need.Program(s.t, "avahi-daemon", "avahi-daemon")
	need.Program(s.t, "avahi-browse", "avahi-utils")
	s.shell(host, "mkdir -p /run/dbus /run/avahi-daemon")
	s.start(host, bus, "--system", "--nofork", "--nopidfile", "--nosyslog")
	await.NoError(s.t, func() error {
		_, err := os.Stat(s.inside(host, "/run/dbus/system_bus_socket"))
		return err
	})
	s.start(host, daemon, append([]string{"--no-drop-root", "--no-chroot", "--no-rlimits"}, options...)...).awaitLog("Server startup complete")
}

// publishService announces a service of a host through avahi.
func (s *site) publishService(host, instance, service, port string) {
	s.t.Helper()
	s.start(host, need.Program(s.t, "avahi-publish", "avahi-utils"), "--service", instance, service, port)
}

// resolveWithAvahi waits until avahi-browse on a host resolves a service, and returns
// the fields of avahi-browse's line.
func (s *site) resolveWithAvahi(host, service, instance, family string) (fields []string) {
	s.t.Helper()
	await.NoError(s.t, func() error {
		out, err := s.lab.Command(host, "avahi-browse", "--resolve", "--parsable", "--terminate", service).CombinedOutput()
		if err != nil {
			return fmt.Errorf("avahi-browse on %s: %w\n%s", host, err, out)
		}
		for line := range strings.Lines(string(out)) {
			fields = strings.Split(strings.TrimSpace(line), ";")
			if len(fields) == 10 && fields[0] == "=" && fields[1] == "eth0" && fields[2] == family && fields[3] == instance {
				return nil
			}
		}
		return fmt.Errorf("avahi-browse on %s: no %s %s by %s in\n%s", host, service, instance, family, out)
	})
	return fields
}

func TestDiscoveryWorksWithAvahi(t *testing.T) {
	need.Long(t)
	s := newSite(t, "robot", "pc")
	s.publish("robot", imu)
	before := s.run("pc") // starts before avahi
	s.startAvahi("robot")
	s.startAvahi("pc")
	robot := s.run("robot") // starts after avahi

	for _, host := range []string{"robot", "pc"} {
		for _, family := range []string{"IPv4", "IPv6"} {
			f := s.resolveWithAvahi(host, "_achbridge._udp", "robot", family)
			if f[8] != "8076" || !strings.HasPrefix(f[6], "achbridge-") || !strings.Contains(f[9], `"ch.imu=16x`) {
				t.Errorf("avahi on %s by %s: got %v, want port 8076, our own host name and the channel", host, family, f)
			}
		}
	}
	checkBothFound := func(when string) {
		t.Helper()
		for _, of := range [][2]string{{"robot", "pc"}, {"pc", "robot"}} {
			await.NoError(t, func() error {
				var got struct{ Peers []struct{ Host string } }
				err := s.get(of[0], "/v1/status", &got)
				if err == nil && (len(got.Peers) != 1 || got.Peers[0].Host != of[1]) {
					err = fmt.Errorf("%s: %s knows %v, want %s", when, of[0], got.Peers, of[1])
				}
				return err
			})
		}
	}
	checkBothFound("beside avahi")

	// Avahi keeps its own name and services.
	s.publishService("robot", "printer", "_ipp._tcp", "631")
	if f := s.resolveWithAvahi("pc", "_ipp._tcp", "printer", "IPv4"); f[6] != "robot.local" || f[8] != "631" {
		t.Errorf("a service of avahi: got %v, want it at robot.local, port 631", f)
	}
	checkBothFound("after avahi published")

	robot.terminate()
	await.NoError(t, func() error {
		out, err := s.lab.Command("pc", "avahi-browse", "--parsable", "--terminate", "_achbridge._udp").Output()
		if err == nil && strings.Contains(string(out), ";robot;") {
			err = fmt.Errorf("avahi still lists the robot, which has left:\n%s", out)
		}
		return err
	})
	before.terminate()
}

// With disallow-other-stacks avahi opens the port so that no other program can share it.
func TestDoctorReportsAvahiWithExclusivePort(t *testing.T) {
	s := newSite(t, "pc")
	file := filepath.Join(t.TempDir(), "avahi.conf")
	if err := os.WriteFile(file, []byte("[server]\ndisallow-other-stacks=yes\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.startAvahi("pc", "--file="+file)
	pc := s.run("pc", "--mirror", "robot/imu")
	pc.awaitLog("cannot browse, trying again")
	list, _ := s.doctor("pc")
	got := list["multicast"]
	if got.State != "failure" || !strings.Contains(got.Cure, "disallow-other-stacks=no") || strings.Contains(got.Cure, "firewall") {
		t.Errorf("got %+v, want the cure for avahi alone", got)
	}
	if why, _, _ := s.achbridge("pc", "why", "robot/imu", "--window", "3s"); !strings.Contains(why, "address already in use") {
		t.Errorf("why: got %s, want the cause", why)
	}
	if count := strings.Count(pc.log.String(), "cannot browse"); count > 2 {
		t.Errorf("got %d lines of one trouble in the log", count)
	}
}
