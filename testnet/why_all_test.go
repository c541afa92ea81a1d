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

// whyAllCase is a problem of all mirrors of a PC, and the first line that why without a channel must
// print.
type whyAllCase struct {
	name     string
	comes    func(*whySite)
	cause    string
	wantText []string
	goes     func(*whySite)
}

var whyAllCases = []whyAllCase{
	{name: "thin link with cameras", comes: func(c *whySite) { c.link("", "rate=2mbit") },
		cause: "link_rate", wantText: []string{"link from robot carries ", " Mbit/s that ", " mirrors need: camera-", " max_rate or compress for camera-"},
		goes: func(c *whySite) { c.link("", "rate=none") }},
	{name: "full /dev/shm", comes: func(c *whySite) {
		c.shell("pc", fill)
		c.other = c.publish("robot", "gps:20:5000", "map:20:5000")
		c.shell("robot", "chmod 0666 /dev/shm/achshm-*")
	},
		cause: "shm_full", wantText: []string{"/dev/shm is full: 2 mirrors have no room for it", "robot.gps and robot.map", "mount -o remount"},
		goes: func(c *whySite) { c.shell("pc", drain) }},
	{name: "busy processor", comes: func(c *whySite) {
		c.robot.kill()
		c.robot = c.asNobodyUnder("robot", []string{"nice", "-n", "19", "taskset", "-c", "0"})
		for range 3 {
			burner := c.startUnder("robot", []string{"taskset", "-c", "0"}, "/bin/sh", "-c", "while :; do :; done")
			c.t.Cleanup(func() { _ = burner.Process.Kill() })
		}
	},
		cause: "host_busy", wantText: []string{"the daemon on robot gets too little CPU time", "its threads waited for a CPU ", "more CPU time"}},
}

// The first line of why without a channel must name the problem of all mirrors.
func TestWhyWithoutChannelNamesCauseFirst(t *testing.T) {
	need.Long(t)
	c := &whySite{site: newSite(t, "robot", "pc")}
	c.link("", "delay=5ms,queue=64KiB")
	c.publisher = c.publish("robot", "camera-left:10:40000", "camera-right:10:40000", "arm:50:64", "base:50:64", "imu:50:64", "legs:50:64", "head:50:64")
	c.shell("robot", "chmod 0666 /dev/shm/achshm-*")
	c.robot = c.asNobody("robot")
	c.pc = c.asNobody("pc", "--mirror", "robot/*,compress=none")
	for _, x := range whyAllCases {
		c.waitForFirstLine(whyAllCase{name: "before " + x.name, cause: ""})
		x.comes(c)
		c.waitForFirstLine(x)
		if x.goes != nil {
			x.goes(c)
		}
	}
}

// waitForFirstLine runs why until the first line has the cause. "" means that there is no problem.
func (c *whySite) waitForFirstLine(x whyAllCase) {
	c.t.Helper()
	var line string
	begin := time.Now()
	await.NoError(c.t, func() error {
		stdout, stderr, code := c.achbridge("pc", "why", "--json", "--window", "2s")
		var r struct {
			Mirrors  int
			Troubles []whyReport
		}
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			return fmt.Errorf("%s: %w: %s%s", x.name, err, stdout, stderr)
		}
		cause := ""
		line = ""
		if len(r.Troubles) > 0 {
			cause, line = r.Troubles[0].Cause, r.Troubles[0].String()
		}
		if r.Mirrors < 7 || cause != x.cause || (code == 0) != (cause == "") {
			return fmt.Errorf("%s: want %q first, got exit code %d, %d mirrors and %v", x.name, x.cause, code, r.Mirrors, r.Troubles)
		}
		return nil
	})
	c.t.Logf("%s, after %v: %s", x.name, time.Since(begin).Round(10*time.Millisecond), line)
	for _, text := range x.wantText {
		if !strings.Contains(line, text) {
			c.t.Errorf("%s: %q is missing in\n%s", x.name, text, line)
		}
	}
}
