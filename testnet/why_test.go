package testnet_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// whyReport is the output of achbridge why --json.
type whyReport struct {
	Cause    string
	Text     string
	Evidence []string
	Cure     string
}

func (v whyReport) String() string {
	return strings.Join(append([]string{v.Cause + ": " + v.Text, "fix: " + v.Cure}, v.Evidence...), "\n")
}

// whyCase is a problem between a robot and a PC, and the expected diagnosis.
type whyCase struct {
	name      string
	comes     func(*whySite)
	askedHost string // host on which why runs; "" means the PC
	subject   string // argument of why; "" means robot/imu
	cause     string
	wantText  []string // texts in the text, evidence or fix
	goes      func(*whySite)
}

// whySite is a robot and a PC that mirrors it. Their daemons run as nobody, so that file
// modes apply.
type whySite struct {
	*site
	publisher, robot, pc *process
	other                *process
}

func newWhySite(t *testing.T) *whySite {
	t.Helper()
	c := &whySite{site: newSite(t, "robot", "pc")}
	c.link("", "delay=5ms,queue=64KiB")
	c.publisher = c.publish("robot", "imu:20:12000")
	c.shell("robot", `chmod 0666 /dev/shm/achshm-*`)
	c.robot = c.asNobody("robot")
	c.pc = c.asNobody("pc", "--mirror", "robot/*,compress=none")
	return c
}

// asNobody starts a daemon as an unprivileged user.
func (c *whySite) asNobody(host string, args ...string) *process {
	c.t.Helper()
	return c.asNobodyUnder(host, nil, args...)
}

// asNobodyUnder starts a daemon as an unprivileged user through a wrapper.
func (c *whySite) asNobodyUnder(host string, wrapper []string, args ...string) *process {
	c.t.Helper()
	c.shell(host, "chown -R 65534:65534 /etc/achbridge; mkdir -p /run/achbridge /var/lib/achbridge; chown 65534:65534 /run/achbridge /var/lib/achbridge")
	line := append([]string{"run", "--control", "/run/achbridge/control.sock", "--key", "/etc/achbridge/key", "--state", "/var/lib/achbridge"}, args...)
	p := c.startUnder(host, append(wrapper, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"), "achbridge", line...)
	p.awaitLog("daemon started")
	return p
}

// why runs achbridge why once on a host.
func (c *whySite) why(host, of string) (v whyReport, code int) {
	c.t.Helper()
	stdout, stderr, code := c.achbridge(host, "why", of, "--json", "--window", "1s")
	if stdout == "" {
		return whyReport{Cause: stderr}, code
	}
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		c.t.Fatalf("why %s on %s: %v\n%s", of, host, err, stdout)
	}
	return v, code
}

var whyCases = []whyCase{
	{name: "nothing", cause: "well", wantText: []string{"frames a second are put, of 11.7 KiB", "link: round trip"}},
	{
		name: "rate=1mbit", comes: func(c *whySite) { c.link("", "rate=1mbit") },
		cause: "link_rate", wantText: []string{"the link from robot carries less", "bit/s", "frames waited for the link"},
	},
	{
		name: "the same on the robot", askedHost: "robot", subject: "imu",
		cause: "link_rate", wantText: []string{"the link to pc", "frames waited for the link", "measured when it was full"},
		goes: func(c *whySite) { c.link("", "rate=none") },
	},
	{name: "the link is good again", cause: "well"},
	{
		name: "loss=30%", comes: func(c *whySite) { c.link("", "rate=none,loss=30%") },
		cause: "loss", wantText: []string{"the way from robot loses", "of the packets"},
		goes: func(c *whySite) { c.link("", "loss=0%") },
	},
	{
		name: "permission of the channel", comes: func(c *whySite) {
			c.shell("robot", "chmod 0600 /dev/shm/achshm-imu")
			c.robot.kill() // the daemon has the channel open
			c.robot = c.asNobody("robot")
		},
		cause: "file_mode", wantText: []string{"robot does not offer imu", "no permission", "on robot: give the channel a group"},
	},
	{
		name: "the same on the robot", askedHost: "robot", subject: "imu",
		cause: "file_mode", wantText: []string{"mode 0600, owner root:root", "the daemon runs as nobody"},
		goes: func(c *whySite) { c.shell("robot", "chmod 0666 /dev/shm/achshm-imu") },
	},
	{
		name: "publisher stopped", comes: func(c *whySite) { c.publisher.freeze() },
		cause: "publisher_stopped", wantText: []string{"nothing is put into robot/imu", "has put none since"},
	},
	{
		name: "the same on the robot", askedHost: "robot", subject: "imu",
		cause: "publisher_stopped", wantText: []string{"nothing is put into imu", "publish (pid ", "which is stopped", "kill -CONT"},
	},
	{
		name: "publisher gone", subject: "done", askedHost: "robot", comes: func(c *whySite) {
			c.must("robot", "channel", "create", "done")
			c.must("robot", "channel", "put", "done", "bye")
			c.shell("robot", "chmod 0666 /dev/shm/achshm-done")
		},
		cause: "publisher_stopped", wantText: []string{"no other process has it open: its publisher is gone"},
	},
	{
		name: "budget too short", subject: "robot/map", comes: func(c *whySite) {
			c.other = c.publish("robot", "map:1:60000")
			c.shell("robot", "chmod 0666 /dev/shm/achshm-*")
			c.link("", "rate=1mbit")
		},
		cause: "budget", wantText: []string{"the budget of robot.map, 100 ms, is too short", "a frame of 58.6 KiB takes"},
	},
	{
		name: "the same on the robot", askedHost: "robot", subject: "map",
		cause: "budget", wantText: []string{"a frame of 58.6 KiB takes", "to send"},
		goes: func(c *whySite) { c.link("", "rate=none"); c.publisher.thaw() },
	},
	{
		name: "lock of the mirror taken", comes: func(c *whySite) {
			c.shell("pc", "chmod 0666 /dev/shm/achshm-robot.imu")
			reader := c.startPeer("pc", "robot.imu", "hold", "60000")
			c.t.Cleanup(func() { _ = reader.Process.Kill() })
			awaitOwner(c.t, c.channel("pc", "robot.imu"))
			c.other = reader
		},
		cause: "receiver_slow", wantText: []string{"holds the lock of robot.imu", "(peer)"},
		goes: func(c *whySite) { c.other.kill() },
	},
	{
		name: "shared memory full", subject: "robot/gps", comes: func(c *whySite) {
			c.shell("pc", fill)
			c.other = c.publish("robot", "gps:20:5000")
			c.shell("robot", "chmod 0666 /dev/shm/achshm-gps")
		},
		cause: "shm_full", wantText: []string{"no room in /dev/shm", "mount -o remount"},
		goes: func(c *whySite) { c.shell("pc", drain) },
	},
	{name: "there is room again", subject: "robot/gps", cause: "well"},
	{
		name: "daemon killed", comes: func(c *whySite) { c.robot.kill() },
		cause: "peer_silent", wantText: []string{"robot"},
		goes: func(c *whySite) { c.robot = c.asNobody("robot") },
	},
	{name: "it is back", cause: "well"},
	{
		name: "cable cut", comes: func(c *whySite) { c.link("robot", "cut") },
		cause: "peer_silent", wantText: []string{"nothing has been received from robot for"},
		goes: func(c *whySite) { c.link("robot", "up") },
	},
	{
		name: "multicast switched off", comes: func(c *whySite) {
			c.pc.terminate()
			c.shell("pc", "ip link set eth0 multicast off")
			c.pc = c.asNobody("pc", "--mirror", "robot/imu")
		},
		cause: "multicast_blocked", wantText: []string{"no interface is up that can multicast", "--peer robot"},
		goes: func(c *whySite) { c.pc.terminate(); c.shell("pc", "ip link set eth0 multicast on") },
	},
	{
		name: "multicast blocked on the way", comes: func(c *whySite) {
			c.robot.terminate()
			c.robot = c.asNobody("robot", "--discovery", "off") // as if its announcements were filtered
			c.pc = c.asNobody("pc", "--mirror", "robot/imu")
		},
		cause: "multicast_blocked", wantText: []string{"robot answers at", "nothing of it comes by multicast", "--peer robot"},
	},
}

func TestWhyNamesCause(t *testing.T) {
	need.Long(t)
	c := newWhySite(t)
	for _, a := range whyCases {
		c.check(a)
	}
}

// check causes a problem, runs why, and ends the problem.
func (c *whySite) check(a whyCase) {
	c.t.Helper()
	if a.comes != nil {
		a.comes(c)
	}
	if a.askedHost == "" {
		a.askedHost = "pc"
	}
	if a.subject == "" {
		a.subject = "robot/imu"
	}
	var v whyReport
	begin := time.Now()
	await.NoError(c.t, func() error {
		var code int
		v, code = c.why(a.askedHost, a.subject)
		if v.Cause != a.cause {
			return fmt.Errorf("%s: want %s, got %v", a.name, a.cause, v)
		}
		if (code == 0) != (a.cause == "well") || code > 1 {
			return fmt.Errorf("%s: got exit code %d for %s", a.name, code, v.Cause)
		}
		return nil
	})
	c.t.Logf("%s, after %v: %v", a.name, time.Since(begin).Round(10*time.Millisecond), v)
	for _, text := range a.wantText {
		if !strings.Contains(v.String(), text) {
			c.t.Errorf("%s: %q is missing in\n%v", a.name, text, v)
		}
	}
	if a.goes != nil {
		a.goes(c)
	}
}
