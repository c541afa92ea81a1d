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

// verdict is what achbridge why tells programs.
type verdict struct {
	Cause    string
	Text     string
	Evidence []string
	Cure     string
}

func (v verdict) String() string {
	return strings.Join(append([]string{v.Cause + ": " + v.Text, "cure: " + v.Cure}, v.Evidence...), "\n")
}

// ailment is one thing that goes wrong between a robot and a PC, and what is said of it.
type ailment struct {
	name  string
	comes func(*clinic)
	on    string // the host that is asked; "" is the PC
	of    string // what it is asked about; "" is robot/imu
	cause string
	tells []string // in text, evidence or cure
	goes  func(*clinic)
}

// clinic is a robot and a PC that mirrors it. Their daemons run as nobody, so that the
// modes of files count.
type clinic struct {
	*site
	publisher, robot, pc *process
	other                *process
}

func newClinic(t *testing.T) *clinic {
	t.Helper()
	c := &clinic{site: newSite(t, "robot", "pc")}
	c.link("", "delay=5ms,queue=64KiB")
	c.publisher = c.publish("robot", "imu:20:12000")
	c.shell("robot", `chmod 0666 /dev/shm/achshm-*`)
	c.robot = c.asNobody("robot")
	c.pc = c.asNobody("pc", "--mirror", "robot/*,compress=none")
	return c
}

// asNobody starts a daemon as a user that may do nothing special.
func (c *clinic) asNobody(host string, args ...string) *process {
	c.t.Helper()
	return c.asNobodyUnder(host, nil, args...)
}

// asNobodyUnder starts it with the command of a wrapper before it.
func (c *clinic) asNobodyUnder(host string, wrapper []string, args ...string) *process {
	c.t.Helper()
	c.shell(host, "chown -R 65534:65534 /etc/achbridge; mkdir -p /run/achbridge /var/lib/achbridge; chown 65534:65534 /run/achbridge /var/lib/achbridge")
	line := append([]string{"run", "--control", "/run/achbridge/control.sock", "--key", "/etc/achbridge/key", "--state", "/var/lib/achbridge"}, args...)
	p := c.startUnder(host, append(wrapper, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"), "achbridge", line...)
	p.awaitLog("msg=running")
	return p
}

// why asks a host once.
func (c *clinic) why(host, of string) (v verdict, code int) {
	c.t.Helper()
	stdout, stderr, code := c.verb(host, "why", of, "--json", "--window", "1s")
	if stdout == "" {
		return verdict{Cause: stderr}, code
	}
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		c.t.Fatalf("why %s on %s: %v\n%s", of, host, err, stdout)
	}
	return v, code
}

var ailments = []ailment{
	{name: "nothing", cause: "well", tells: []string{"frames a second are put, of 11.7 KiB", "link: round trip"}},
	{
		name: "rate=1mbit", comes: func(c *clinic) { c.link("", "rate=1mbit") },
		cause: "link_rate", tells: []string{"the link from robot carries less", "bit/s", "frames waited for the link"},
	},
	{
		name: "the same on the robot", on: "robot", of: "imu",
		cause: "link_rate", tells: []string{"the link to pc", "frames waited for the link", "measured when it was full"},
		goes: func(c *clinic) { c.link("", "rate=none") },
	},
	{name: "the link is good again", cause: "well"},
	{
		name: "loss=30%", comes: func(c *clinic) { c.link("", "rate=none,loss=30%") },
		cause: "loss", tells: []string{"the way from robot loses", "of the packets"},
		goes: func(c *clinic) { c.link("", "loss=0%") },
	},
	{
		name: "permission of the channel", comes: func(c *clinic) {
			c.shell("robot", "chmod 0600 /dev/shm/achshm-imu")
			c.robot.kill() // it has the channel open
			c.robot = c.asNobody("robot")
		},
		cause: "file_mode", tells: []string{"robot does not offer imu", "no permission", "on robot: give the channel a group"},
	},
	{
		name: "the same on the robot", on: "robot", of: "imu",
		cause: "file_mode", tells: []string{"mode 0600, owner root:root", "the daemon runs as nobody"},
		goes: func(c *clinic) { c.shell("robot", "chmod 0666 /dev/shm/achshm-imu") },
	},
	{
		name: "publisher stopped", comes: func(c *clinic) { c.publisher.freeze() },
		cause: "publisher_stopped", tells: []string{"nothing is put into robot/imu", "has put none since"},
	},
	{
		name: "the same on the robot", on: "robot", of: "imu",
		cause: "publisher_stopped", tells: []string{"nothing is put into imu", "publisher (pid ", "which is stopped", "kill -CONT"},
	},
	{
		name: "publisher gone", of: "done", on: "robot", comes: func(c *clinic) {
			c.must("robot", "channel", "create", "done")
			c.must("robot", "channel", "put", "done", "bye")
			c.shell("robot", "chmod 0666 /dev/shm/achshm-done")
		},
		cause: "publisher_stopped", tells: []string{"no other process has it open: its publisher is gone"},
	},
	{
		name: "budget too short", of: "robot/map", comes: func(c *clinic) {
			c.other = c.publish("robot", "map:1:60000")
			c.shell("robot", "chmod 0666 /dev/shm/achshm-*")
			c.link("", "rate=1mbit")
		},
		cause: "budget", tells: []string{"the budget of robot.map, 100 ms, is too short", "a frame of 58.6 KiB takes"},
	},
	{
		name: "the same on the robot", on: "robot", of: "map",
		cause: "budget", tells: []string{"a frame of 58.6 KiB takes", "to send"},
		goes: func(c *clinic) { c.link("", "rate=none"); c.publisher.thaw() },
	},
	{
		name: "lock of the mirror taken", comes: func(c *clinic) {
			c.shell("pc", "chmod 0666 /dev/shm/achshm-robot.imu")
			reader := c.startPeer("pc", "robot.imu", "hold", "60000")
			c.t.Cleanup(func() { _ = reader.Process.Kill() })
			awaitOwner(c.t, c.channel("pc", "robot.imu"))
			c.other = reader
		},
		cause: "receiver_slow", tells: []string{"holds the lock of robot.imu", "(peer)"},
		goes: func(c *clinic) { c.other.kill() },
	},
	{
		name: "shared memory full", of: "robot/gps", comes: func(c *clinic) {
			c.shell("pc", fill)
			c.other = c.publish("robot", "gps:20:5000")
			c.shell("robot", "chmod 0666 /dev/shm/achshm-gps")
		},
		cause: "shm_full", tells: []string{"no room in /dev/shm", "mount -o remount"},
		goes: func(c *clinic) { c.shell("pc", drain) },
	},
	{name: "there is room again", of: "robot/gps", cause: "well"},
	{
		name: "daemon killed", comes: func(c *clinic) { c.robot.kill() },
		cause: "peer_silent", tells: []string{"robot"},
		goes: func(c *clinic) { c.robot = c.asNobody("robot") },
	},
	{name: "it is back", cause: "well"},
	{
		name: "cable cut", comes: func(c *clinic) { c.link("robot", "cut") },
		cause: "peer_silent", tells: []string{"nothing is heard of robot any more"},
		goes: func(c *clinic) { c.link("robot", "up") },
	},
	{
		name: "multicast switched off", comes: func(c *clinic) {
			c.pc.leave()
			c.shell("pc", "ip link set eth0 multicast off")
			c.pc = c.asNobody("pc", "--mirror", "robot/imu")
		},
		cause: "multicast_blocked", tells: []string{"no interface is up that can multicast", "--peer robot"},
		goes: func(c *clinic) { c.pc.leave(); c.shell("pc", "ip link set eth0 multicast on") },
	},
	{
		name: "multicast blocked on the way", comes: func(c *clinic) {
			c.robot.leave()
			c.robot = c.asNobody("robot", "--discovery", "off") // as one whose announcements do not pass
			c.pc = c.asNobody("pc", "--mirror", "robot/imu")
		},
		cause: "multicast_blocked", tells: []string{"robot answers at", "nothing of it comes by multicast", "--peer robot"},
	},
}

func TestWhyNamesTheTrueCause(t *testing.T) {
	need.Long(t)
	c := newClinic(t)
	for _, a := range ailments {
		c.treat(a)
	}
}

// treat has an ailment come and go, and asks for it meanwhile.
func (c *clinic) treat(a ailment) {
	c.t.Helper()
	if a.comes != nil {
		a.comes(c)
	}
	if a.on == "" {
		a.on = "pc"
	}
	if a.of == "" {
		a.of = "robot/imu"
	}
	var v verdict
	begin := time.Now()
	await.NoError(c.t, func() error {
		var code int
		v, code = c.why(a.on, a.of)
		if v.Cause != a.cause {
			return fmt.Errorf("%s: want %s, got %v", a.name, a.cause, v)
		}
		if (code == 0) != (a.cause == "well") || code > 1 {
			return fmt.Errorf("%s: got exit code %d for %s", a.name, code, v.Cause)
		}
		return nil
	})
	c.t.Logf("%s, after %v: %v", a.name, time.Since(begin).Round(10*time.Millisecond), v)
	for _, text := range a.tells {
		if !strings.Contains(v.String(), text) {
			c.t.Errorf("%s: %q is not told in\n%v", a.name, text, v)
		}
	}
	if a.goes != nil {
		a.goes(c)
	}
}
