package testnet_test

import (
	"fmt"
	"strings"
	"testing"
)

// Two robots of one name, as two images of one disk are: both can be mirrored,
// and the log of the one that has to change says how.
func TestTwoRobotsOfOneNameAreBothUsable(t *testing.T) {
	s := newSite(t, "robot", "arm", "pc")
	robots := map[string]*process{}
	for host, channel := range map[string]string{"robot": "imu", "arm": "gripper"} {
		s.publish(host, channel+":200:64")
		robots[host] = s.run(host, "--name", "krang")
	}
	s.run("pc", "--mirror", "krang*/*")

	var list []listed
	await(t, met, func() error {
		list, _ = s.ls("pc", "--timeout", "200ms")
		if len(list) != 2 || list[0].Host == list[1].Host || list[0].Host != "krang" ||
			list[1].Host != "krang-"+list[1].Node[:4] || list[0].Node > list[1].Node {
			return fmt.Errorf("got %+v, want krang and, of the higher node id, krang- with its first digits", list)
		}
		return nil
	})
	var views []string
	for _, c := range list {
		views = append(views, "keep:"+c.Host+"."+c.Channel)
	}
	readers := s.observe("pc", views...)
	t.Logf("%v mirrored after %v", views, readers.follows(now(), met, views...))

	second := map[string]string{"imu": "robot", "gripper": "arm"}[list[1].Channel]
	line := robots[second].awaitLog("another node announces this host's name", met)
	if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "--name") || !strings.Contains(line, list[1].Host) {
		t.Errorf("got log line %q, want a warning with the new name and the cure", line)
	}

	// Whoever leaves, the other stays under the name that its mirrors have.
	robots[map[string]string{"robot": "arm", "arm": "robot"}[second]].leave()
	readers.follows(now(), met, views[1])
}
