package discovery

import (
	"context"
	"encoding/hex"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netns"

	"achbridge/testnet/await"
)

// achdQuery returns achd's query for a channel: id 1234, flags 0100, SRV, class 1.
func achdQuery(channel string) []byte {
	b, _ := hex.DecodeString("123401000001000000000000")
	b = append(append(b, byte(len(channel))), channel...)
	return append(b, "\x04_ach\x04_tcp\x05local\x00\x00\x21\x00\x01"...)
}

var onlyImu = AchdSearch{Listen: netip.MustParseAddrPort("[::]:8076"), Serves: func(from netip.Addr, channel string) bool {
	return channel == "imu" && from == netip.MustParseAddr("10.80.76.2")
}}

func imuArrival() (arrival, []link) {
	at := arrival{from: netip.MustParseAddrPort("10.80.76.2:40000"), to: group4, ifIndex: 3}
	return at, []link{
		{iface: net.Interface{Index: 2}, prefixes: []netip.Prefix{netip.MustParsePrefix("10.80.0.9/16")}},
		{iface: net.Interface{Index: 3}, prefixes: []netip.Prefix{netip.MustParsePrefix("10.80.76.1/24"), netip.MustParsePrefix("fe80::1/64")}},
	}
}

func TestAchdSearchAnswersAchd(t *testing.T) {
	at, links := imuArrival()
	got, ours := onlyImu.reply(achdQuery("imu"), at, links)
	// The same id and question, and one SRV record with a TTL of 10 s: port 8076, the address as labels.
	const want = "123484000001000100000000" + "03696d75045f616368045f746370056c6f63616c00" + "00210001" +
		"03696d75045f616368045f746370056c6f63616c00" + "002100010000000a" + "0012" + "000000001f8c" + "023130" + "023830" + "023736" + "0131" + "00"
	if hex.EncodeToString(got) != want || ours != netip.MustParseAddr("10.80.76.1") {
		t.Errorf("got  %x from %v\nwant %s", got, ours, want)
	}
}

func TestAchdSearchIgnoresOtherQueries(t *testing.T) {
	with := func(change func(b []byte) []byte) []byte { return change(achdQuery("imu")) }
	for name, b := range map[string][]byte{
		"another channel": achdQuery("secret"),
		"no channel":      []byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04_ach\x04_tcp\x05local\x00\x00\x21\x00\x01"),
		"bad name":        achdQuery("i m"),
		"pointer":         with(func(b []byte) []byte { b[12] = 0xc0; return b }),
		"a response":      with(func(b []byte) []byte { b[2] |= 0x80; return b }),
		"an update":       with(func(b []byte) []byte { b[2] |= 0x28; return b }),
		"two questions":   with(func(b []byte) []byte { b[5] = 2; return append(b, b[12:]...) }),
		"type A":          with(func(b []byte) []byte { b[len(b)-3] = 1; return b }),
		"class CH":        with(func(b []byte) []byte { b[len(b)-1] = 3; return b }),
		"cut":             with(func(b []byte) []byte { return b[:len(b)-1] }),
	} {
		at, links := imuArrival()
		if got, _ := onlyImu.reply(b, at, links); got != nil {
			t.Errorf("%s: got %x", name, got)
		}
	}
	for name, change := range map[string]func(*arrival){
		"mDNS's own port":      func(a *arrival) { a.from = netip.AddrPortFrom(a.from.Addr(), mdnsPort) },
		"another network":      func(a *arrival) { a.from = netip.MustParseAddrPort("10.80.77.2:40000") },
		"another interface":    func(a *arrival) { a.ifIndex = 4 },
		"another group":        func(a *arrival) { a.to = netip.MustParseAddr("224.0.0.252") },
		"not let in":           func(a *arrival) { a.from = netip.MustParseAddrPort("10.80.76.3:40000") },
		"a link-local address": func(a *arrival) { a.from = netip.MustParseAddrPort("[fe80::2]:40000") },
	} {
		at, links := imuArrival()
		change(&at)
		if got, _ := onlyImu.reply(achdQuery("imu"), at, links); got != nil {
			t.Errorf("%s: got %x", name, got)
		}
	}
}

// A client that asks through another address than Listen gets no answer.
func TestAchdSearchAnswersOnlyAtListenAddress(t *testing.T) {
	at, links := imuArrival()
	for listen, want := range map[string]bool{"10.80.76.1:80": true, "127.0.0.1:8076": false, "10.80.0.9:8076": false} {
		a := onlyImu
		a.Listen = netip.MustParseAddrPort(listen)
		if got, _ := a.reply(achdQuery("imu"), at, links); (got != nil) != want {
			t.Errorf("%s: got %x", listen, got)
		}
	}
}

func TestSearchedChannel(t *testing.T) {
	for name, want := range map[string]string{
		"imu._ach._tcp.local.":         "imu",
		"robot.imu._ach._tcp.local.":   "robot.imu",
		`robot\.imu._ACH._tcp.Local.`:  "robot.imu",
		"Imu._ach._tcp.local.":         "Imu",
		"_ach._tcp.local.":             "",
		"._ach._tcp.local.":            "",
		`i\032m._ach._tcp.local.`:      "",
		"imu._achbridge._udp.local.":   "",
		"imu._ach._tcp.example.local.": "",
	} {
		if got, ok := searchedChannel(name); ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, ok, want)
		}
	}
}

func FuzzAchdSearch(f *testing.F) {
	f.Add(achdQuery("imu"))
	f.Add(achdQuery("secret"))
	f.Fuzz(func(t *testing.T, b []byte) {
		at, links := imuArrival()
		if got, ours := onlyImu.reply(b, at, links); got != nil && (len(got) > 200 || string(got[:2]) != string(b[:2]) || ours != links[1].prefixes[0].Addr()) {
			t.Errorf("%x: got %x", b, got)
		}
	})
}

// The answer to a query like achd's goes to the port that sent the query.
func TestAchdSearchOverNetwork(t *testing.T) {
	l := newLab(t)
	l.addSwitch("sw0")
	robot, pc := l.addHost(), l.addHost()
	robot.plug("eth0", "sw0", "10.0.0.1/24")
	pc.plug("eth0", "sw0", "10.0.0.2/24")
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	defer run.Wait()
	defer cancel()
	run.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread stays in the robot's namespace until it ends
		if err := netns.Set(robot.ns); err != nil {
			t.Error(err)
			return
		}
		serves := func(from netip.Addr, channel string) bool { return channel == "imu" }
		_ = AchdSearch{Listen: netip.MustParseAddrPort("[::]:8076"), Serves: serves, Log: slog.New(slog.DiscardHandler)}.Run(ctx)
	})
	var conn *net.UDPConn
	onThread(t, func() (err error) {
		if err = netns.Set(pc.ns); err == nil {
			conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2)})
		}
		return err
	})
	defer conn.Close()
	group := net.UDPAddrFromAddrPort(netip.AddrPortFrom(group4, mdnsPort))
	buf := make([]byte, maxPacket)
	for end := await.Deadline(); ; {
		for _, channel := range []string{"secret", "imu"} { // achd also repeats its query
			if _, err := conn.WriteTo(achdQuery(channel), group); err != nil {
				t.Fatal(err)
			}
		}
		_ = conn.SetReadDeadline(time.Now().Add(250 * time.Millisecond))
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err == nil {
			var got dns.Msg
			if err := got.Unpack(buf[:n]); err != nil || got.Id != 0x1234 || len(got.Answer) != 1 || from.Addr() != netip.MustParseAddr("10.0.0.1") {
				t.Fatalf("got %x from %v, %v", buf[:n], from, err)
			}
			if srv, ok := got.Answer[0].(*dns.SRV); !ok || srv.Target != "10.0.0.1." || srv.Port != 8076 || srv.Hdr.Name != "imu._ach._tcp.local." {
				t.Errorf("got %v", got.Answer[0])
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal("no answer")
		}
	}
}
