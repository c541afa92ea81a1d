package discovery

import (
	"net"
	"testing"

	"github.com/grandcat/zeroconf"
)

// Names of mirrors contain a dot, which is escaped in DNS names.
func TestParseAchdEntryUnescapesDots(t *testing.T) {
	e := zeroconf.NewServiceEntry(`robot\.imu`, "_ach._tcp", "local.")
	e.HostName, e.Port, e.AddrIPv4 = "krang.local.", 8076, []net.IP{net.IPv4(10, 0, 0, 7)}
	if c, ok := parseAchdEntry(e); !ok || c.Channel != "robot.imu" || c.Host != "krang.local" {
		t.Errorf("got %+v, %v", c, ok)
	}
	e.Instance = "robot imu"
	if c, ok := parseAchdEntry(e); ok {
		t.Errorf("a name that no channel can have: got %+v", c)
	}
}
