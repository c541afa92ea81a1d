package testnet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/testnet/await"
)

// hubFile has two robots, two operators and a hub. Each host is on a network of its own.
const hubFile = "testnet/compose/hub.yml"

// hubMirrors are the mirrors of hub.yml.
var hubMirrors = mirrors{
	"planner":  {"robot.imu", "robot.joints", "robot.camera", "atlas.imu", "atlas.legs"},
	"operator": {"robot.camera", "atlas.legs"},
}

// except returns the mirrors without those of a host.
func (m mirrors) except(host string) mirrors {
	left := mirrors{}
	for service, names := range m {
		for _, name := range names {
			if !strings.HasPrefix(name, host+".") {
				left[service] = append(left[service], name)
			}
		}
	}
	return left
}

// composeWithAHub starts hosts on separate networks that meet at a hub, and injects faults of the
// hub and of a host.
func composeWithAHub(t *testing.T) {
	c := startCompose(t, hubFile)
	c.step("start", func(c *compose) {
		c.follow(hubMirrors)
		c.checkReadable(hubMirrors)
		for service := range c.ids {
			c.waitUntilHealthy(service)
		}
		c.checkOnlyThroughHub("planner")
	})
	c.step("the hub is killed and started again", func(c *compose) {
		c.docker("kill", c.ids["hub"])
		time.Sleep(time.Second)
		c.docker("start", c.ids["hub"])
		c.follow(hubMirrors)
	})
	c.step("an operator is away for a while", func(c *compose) {
		join := c.cut("operator", "operator")
		time.Sleep(5 * time.Second)
		c.follow(mirrors{"planner": hubMirrors["planner"]})
		join()
		c.follow(hubMirrors)
	})
	c.step("a robot that is removed is cut off", func(c *compose) {
		c.mustRun("hub", "achbridge", "hub", "remove", "atlas", "--dir", "/hub")
		await.NoError(c.t, func() error {
			if up := c.linked("planner", "atlas"); len(up) > 0 {
				return fmt.Errorf("planner: its link to atlas is up")
			}
			return nil
		})
		await.NoError(c.t, func() error {
			out, _ := c.output("atlas", "achbridge", "status", "-v")
			if want := "the hub refuses the credentials of atlas"; !strings.Contains(string(out), want) {
				return fmt.Errorf("atlas: status does not say %q:\n%s", want, out)
			}
			return nil
		})
		c.follow(hubMirrors.except("atlas"))
	})
}

// checkOnlyThroughHub checks that all links of a host are through the hub.
func (c *compose) checkOnlyThroughHub(service string) {
	c.t.Helper()
	got := c.status(service)
	if len(got.Links) == 0 {
		c.t.Errorf("%s: got no links, want two", service)
	}
	for _, l := range got.Links {
		if l.Transport != "hub" {
			c.t.Errorf("%s: the link to %s is over %s, want hub", service, l.Peer, l.Transport)
		}
	}
}
