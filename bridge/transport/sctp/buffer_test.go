package sctp

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestSocketBuffersReachSystemLimit(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	receive, send := growBuffers(conn)
	for _, c := range []struct {
		limit string
		got   int
	}{{"rmem_max", receive}, {"wmem_max", send}} {
		text, err := os.ReadFile("/proc/sys/net/core/" + c.limit)
		if err != nil {
			t.Fatal(err)
		}
		most, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s is %d: got %d bytes, of %d", c.limit, most, c.got, kernelBuffer)
		// Linux doubles the requested size. A privileged process may exceed the limit.
		if want := 2 * min(most, kernelBuffer); c.got < want {
			t.Errorf("%s: got %d bytes, want %d or more", c.limit, c.got, want)
		}
	}
}
