package testnet_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// startAvahi runs an avahi-daemon on a host, as Debian does beside everything
// else: it has the mDNS port and the host's name.
func (s *site) startAvahi(host string) {
	s.t.Helper()
	for _, program := range []string{"dbus-daemon", "avahi-daemon", "avahi-browse"} {
		if _, err := exec.LookPath(program); err != nil {
			s.t.Skipf("no %s: install the Debian packages avahi-daemon, avahi-utils and dbus", program)
		}
	}
	if out, err := s.lab.Command(host, "mkdir", "-p", "/run/dbus", "/run/avahi-daemon").CombinedOutput(); err != nil {
		s.t.Fatalf("directories of avahi: %v\n%s", err, out)
	}
	s.background(host, "dbus-daemon", "--system", "--nofork", "--nopidfile", "--nosyslog")
	await(s.t, 10*time.Second, func() error {
		return s.lab.Command(host, "test", "-S", "/run/dbus/system_bus_socket").Run()
	})
	avahi := s.background(host, "avahi-daemon", "--no-drop-root", "--no-chroot", "--no-rlimits")
	avahi.awaitLog("Server startup complete", 20*time.Second)
}

// background starts a program that is not ours.
func (s *site) background(host, program string, args ...string) *process {
	s.t.Helper()
	p := &process{t: s.t, Cmd: s.lab.Command(host, program, args...), began: time.Now()}
	p.Stderr = &p.log
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("%s on %s:\n%s", program, host, p.log.String())
		}
	})
	return p
}

// avahiSees waits until avahi-browse on a host resolves a service, and returns
// what it says of it: fields of a line.
func (s *site) avahiSees(host, service, instance, family string) (fields []string) {
	s.t.Helper()
	await(s.t, 15*time.Second, func() error {
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

func TestAvahiReadsWhatWeAnnounceAndBothWork(t *testing.T) {
	longRun(t)
	s := newSite(t, "robot", "pc")
	s.publish("robot", "imu:200:64")
	before := s.run("pc") // the daemon before avahi
	s.startAvahi("robot")
	s.startAvahi("pc")
	robot := s.run("robot") // avahi before the daemon

	for _, host := range []string{"robot", "pc"} {
		for _, family := range []string{"IPv4", "IPv6"} {
			f := s.avahiSees(host, "_achbridge._udp", "robot", family)
			if f[8] != "8076" || !strings.HasPrefix(f[6], "achbridge-") || !strings.Contains(f[9], `"ch.imu=16x`) {
				t.Errorf("avahi on %s by %s: got %v, want port 8076, our own host name and the channel", host, family, f)
			}
		}
	}
	checkBothFound := func(when string) {
		t.Helper()
		for _, of := range [][2]string{{"robot", "pc"}, {"pc", "robot"}} {
			await(t, met, func() error {
				var got struct{ Peers []struct{ Host string } }
				err := s.api(of[0], "/v1/status", &got)
				if err == nil && (len(got.Peers) != 1 || got.Peers[0].Host != of[1]) {
					err = fmt.Errorf("%s: %s knows %v, want %s", when, of[0], got.Peers, of[1])
				}
				return err
			})
		}
	}
	checkBothFound("beside avahi")

	// Avahi keeps its own name and services.
	s.background("robot", "avahi-publish", "--service", "printer", "_ipp._tcp", "631")
	if f := s.avahiSees("pc", "_ipp._tcp", "printer", "IPv4"); f[6] != "robot.local" || f[8] != "631" {
		t.Errorf("a service of avahi: got %v, want it at robot.local, port 631", f)
	}
	checkBothFound("after avahi published")

	robot.leave()
	await(t, met, func() error {
		out, err := s.lab.Command("pc", "avahi-browse", "--parsable", "--terminate", "_achbridge._udp").Output()
		if err == nil && strings.Contains(string(out), ";robot;") {
			err = fmt.Errorf("avahi still lists the robot, which has left:\n%s", out)
		}
		return err
	})
	before.leave()
}
