package testnet_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"
)

// QUIC needs packets of 1200 B (RFC 9000, section 14): on a path of 576 B there is
// no link over it, and the operator is told why.
func TestPathTooSmallForQUICIsNamed(t *testing.T) {
	longRun(t)
	s := newSite(t, "robot", "pc")
	s.link("", "mtu=576")
	s.publish("robot", "imu:200:64")
	s.run("robot", "--transport", "quic")
	s.run("pc", "--mirror", "robot/*", "--transport", "quic", "--peer", "robot").awaitLog("msg=running", met)
	cause := regexp.MustCompile(`(?i)path|mtu|packets of`)
	await(t, 20*time.Second, func() error {
		for _, p := range s.status("pc").Peers {
			if cause.MatchString(p.Error) {
				return nil
			}
		}
		return fmt.Errorf("peers of the PC: got %+v, want one with an error that matches %v", s.status("pc").Peers, cause)
	})
}

// Transport auto takes SCTP there, whose packets can be smaller.
func TestMirrorsFollowOnAPathTooSmallForQUIC(t *testing.T) {
	s := newSite(t, "robot", "pc")
	s.link("", "mtu=576")
	publisher := s.publish("robot", "imu:200:64", "joints:50:3000")
	o := s.brace(ordeal{
		publishers: []*process{publisher},
		daemons: map[string]*process{
			"robot": s.run("robot"),
			"pc":    s.run("pc", "--mirror", "robot/*"),
		},
		readers: []*observation{s.observe("pc", keeping, reopening, parts)},
	})
	for _, l := range s.status("pc").Links {
		if l.Transport.String() != "sctp" {
			t.Errorf("link: got %+v, want it over SCTP", l)
		}
	}
	o.aftermath("path of 576 B, auto", cut("robot", time.Second)(o))
}
