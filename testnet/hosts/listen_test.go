package hosts

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"achbridge/testnet/await"
)

func TestListenReportsFramesBeforeTheirLoss(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}, Link: "loss=100%"})
	var received atomic.Int32
	stop := l.Listen(func(host string, frame []byte) {
		if host == "pc" && len(frame) == 14+20+8+4 {
			received.Add(1)
		}
	})
	conn := dial(t, l, "pc", robot4+":9")
	send(conn, 1)
	await.True(t, "the listener has received nothing", func() bool { return received.Load() == 1 })
	stop()
	before := sent(l)
	send(conn, 2)
	await.True(t, "the second datagram has not reached the switch", func() bool { return sent(l) > before })
	if n := received.Load(); n != 1 {
		t.Errorf("received %d datagrams after stop, want none", n-1)
	}
}

// Linux reports a change of the carrier up to a second late.
func TestPulledCableEndsCarrierAndKeepsAddresses(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot"}})
	for _, c := range []struct {
		to   Cable
		want string
	}{{Pulled, "false true"}, {Plugged, "true true"}} {
		if err := l.Plug("robot", c.to); err != nil {
			t.Fatal(err)
		}
		await.NoError(t, func() error {
			if got := in(t, l, "robot", carrier); got != c.want {
				return fmt.Errorf("cable %v: running, addresses = %q, want %q", c.to, got, c.want)
			}
			return nil
		})
	}
	if err := l.Plug("nobody", Plugged); err == nil || !strings.Contains(err.Error(), `no host "nobody"`) {
		t.Errorf("Plug(nobody) = %v, want that there is no such host", err)
	}
}

// carrier returns whether eth0 has a carrier, and whether it has addresses of both families.
func carrier() (string, error) {
	eth, err := net.InterfaceByName("eth0")
	if err != nil {
		return "", err
	}
	addrs, err := eth.Addrs()
	if err != nil {
		return "", err
	}
	families := map[bool]bool{}
	for _, a := range addrs {
		families[a.(*net.IPNet).IP.To4() != nil] = true
	}
	return fmt.Sprint(eth.Flags&net.FlagRunning != 0, len(families) == 2), nil
}
