package hosts

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestListenerHearsWhatIsSentAndLost(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}, Link: "loss=100%"})
	var heard atomic.Int32
	stop := l.Listen(func(host string, frame []byte) {
		if host == "pc" && bytes.HasSuffix(frame, []byte("hello")) {
			heard.Add(1)
		}
	})
	say := func() { output(t, program(l, "pc", "say", "hello")) }
	say()
	for deadline := time.Now().Add(5 * time.Second); heard.Load() != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("heard %d times, want once", heard.Load())
		}
	}
	stop()
	say()
	output(t, program(l, "pc", "say", "after it")) // passes the switch later than hello
	if n := heard.Load(); n != 1 {
		t.Errorf("heard %d times, want none after stop", n-1)
	}
}

func TestHostNoticesThatItsCableIsPulledAndKeepsItsAddresses(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot"}})
	for _, c := range []struct {
		to   Cable
		want string
	}{{Pulled, "false true"}, {Plugged, "true true"}} {
		if err := l.Plug("robot", c.to); err != nil {
			t.Fatal(err)
		}
		// Linux tells of a carrier up to a second late.
		for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			got := output(t, program(l, "robot", "carrier"))
			if got == c.want {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("cable %v: got running, addresses %q, want %q", c.to, got, c.want)
			}
		}
	}
	if err := l.Plug("nobody", Plugged); err == nil || !strings.Contains(err.Error(), `no host "nobody"`) {
		t.Errorf("got %v, want that there is no such host", err)
	}
}

// carrier prints whether eth0 has a carrier, and whether it has addresses of
// both families.
func carrier([]string) error {
	eth, err := net.InterfaceByName("eth0")
	if err != nil {
		return err
	}
	addrs, err := eth.Addrs()
	if err != nil {
		return err
	}
	families := map[bool]bool{}
	for _, a := range addrs {
		families[a.(*net.IPNet).IP.To4() != nil] = true
	}
	fmt.Println(eth.Flags&net.FlagRunning != 0, len(families) == 2)
	return nil
}
