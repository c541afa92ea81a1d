package testnet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

var services = []string{"robot", "planner", "operator"}

// composeMirrors are the mirrors of docker-compose.yml, by service.
var composeMirrors = mirrors{
	"robot":    {"plan"},
	"planner":  {"robot.imu", "robot.joints", "robot.camera"},
	"operator": {"robot.camera", "robot.joints", "planner.plan"},
}

// mirrorsOfRobot returns the mirrors that the planner has of a robot.
func mirrorsOfRobot(name string) mirrors {
	return mirrors{"planner": {name + ".imu", name + ".joints", name + ".camera"}}
}

// Starts the hosts of docker-compose.yml, with and without multicast, and those of hub.yml, and
// injects network faults. The parts run one after the other, since their containers need both cores
// of a small machine.
func TestCompose(t *testing.T) {
	need.Long(t)
	t.Run("multicast", composeByMulticast)
	t.Run("listed peers", composeWithListedPeers)
	t.Run("hub", composeWithAHub)
}

func composeByMulticast(t *testing.T) {
	c := startCompose(t, "docker-compose.yml")
	c.step("start", started)
	for _, service := range services {
		c.step("kill "+service, func(c *compose) { c.kill(service) })
		c.step("restart "+service, func(c *compose) { c.restart(service) })
		c.step("pause "+service, func(c *compose) { c.pause(service, 0) })
		c.step("partition "+service, func(c *compose) { c.partition(service) })
	}
	c.step("pause for longer than a link lives", func(c *compose) { c.pause("robot", 12*time.Second) })
	c.step("a robot joins and takes the address of another", func(c *compose) { c.addRobot() })
	c.step("names collide", func(c *compose) { c.checkNameConflict() })
}

func composeWithListedPeers(t *testing.T) {
	c := startCompose(t, "docker-compose.yml", "docker-compose.unicast.yml")
	c.step("start", started)
	for _, service := range services {
		c.step("kill "+service, func(c *compose) { c.kill(service) })
		c.step("partition "+service, func(c *compose) { c.partition(service) })
	}
	c.step("the robot comes back at another address", func(c *compose) { c.move("robot") })
}

func started(c *compose) {
	c.follow(composeMirrors)
	c.checkReadable(composeMirrors)
	for _, service := range services {
		c.waitUntilHealthy(service)
	}
}

// kill kills a service and starts it again once the others have noticed.
func (c *compose) kill(service string) {
	c.t.Helper()
	c.docker("kill", c.ids[service])
	c.waitUntilMissed(service)
	c.docker("start", c.ids[service])
	c.follow(composeMirrors)
}

func (c *compose) restart(service string) {
	c.t.Helper()
	c.compose("restart", "--timeout", "5", service)
	c.follow(composeMirrors)
}

// pause stops the processes of a service until the others have noticed, and at least
// for the given time.
func (c *compose) pause(service string, least time.Duration) {
	c.t.Helper()
	c.docker("pause", c.ids[service])
	begin := time.Now()
	c.waitUntilMissed(service)
	time.Sleep(least - time.Since(begin))
	c.docker("unpause", c.ids[service])
	c.follow(composeMirrors)
}

// partition disconnects a service from the network until the others have noticed.
func (c *compose) partition(service string) {
	c.t.Helper()
	c.disconnect(service)
	c.waitUntilMissed(service)
	c.connect(service)
	c.follow(composeMirrors)
}

// move gives a service another address, and its former address to another container.
func (c *compose) move(service string) {
	c.t.Helper()
	before := c.address(service)
	c.disconnect(service)
	c.waitUntilMissed(service)
	c.start("stranger", "achbridge", "publish", "noise:10:64")
	defer c.remove("stranger")
	c.connect(service)
	if after := c.address(service); after == before {
		c.t.Fatalf("%s: got its former address %s, want another", service, after)
	}
	c.checkMoveTime(c.follow(composeMirrors))
}

// checkMoveTime checks that a new address was found in less than the half minute after
// which names are looked up and hosts announced anyway.
func (c *compose) checkMoveTime(took time.Duration) {
	c.t.Helper()
	if limit := 15 * time.Second; took > limit {
		c.t.Errorf("got %v until a new address was used, want %v at most", took, limit)
	}
}

// addRobot starts a robot that docker-compose.yml does not list, at the former address
// of the other robot.
func (c *compose) addRobot() {
	c.t.Helper()
	before := c.address("robot")
	c.disconnect("robot")
	c.waitUntilMissed("robot")
	c.startRobot("krang2", "krang2")
	defer c.remove("krang2")
	if got := c.address("krang2"); got != before {
		c.t.Fatalf("krang2: got the address %s, want that of robot, %s", got, before)
	}
	c.connect("robot")
	c.checkMoveTime(c.follow(composeMirrors))
	c.follow(mirrorsOfRobot("krang2"))
	c.mustRun("planner", "achbridge", "push", "plan", "krang2")
	c.follow(mirrors{"krang2": {"plan"}})
}

// checkNameConflict starts a second robot with the name of the first. Both can be used,
// the log of one suggests a fix, and the fix works.
func (c *compose) checkNameConflict() {
	c.t.Helper()
	c.startRobot("first", "krang")
	defer c.remove("first")
	c.follow(mirrorsOfRobot("krang"))
	c.startRobot("second", "krang")
	defer c.remove("second")
	var both []string
	await.NoError(c.t, func() error {
		both = c.linked("planner", "krang")
		if len(both) != 2 {
			return fmt.Errorf("planner: got links to %q, want to two hosts called krang", both)
		}
		return nil
	})
	for _, name := range both {
		c.follow(mirrorsOfRobot(name))
	}
	c.follow(composeMirrors)
	const advice = "another node announces this host's name, hosts linked with both show this one under a longer name, start one with another --name"
	var advised string // the robot that gets a disambiguated name; the other one is krang for all
	await.NoError(c.t, func() error {
		for _, name := range []string{"first", "second"} {
			if strings.Contains(c.logs(name), advice) {
				advised = name
				return nil
			}
		}
		return fmt.Errorf("logs of both: got\n%s\n%s\nwant %q", c.logs("first"), c.logs("second"), advice)
	})

	c.docker("stop", c.ids[advised])
	c.remove(advised)
	c.startRobot(advised, "lakota")
	c.follow(mirrorsOfRobot("krang"))
	c.follow(mirrorsOfRobot("lakota"))
}
