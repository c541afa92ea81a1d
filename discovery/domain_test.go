package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"achbridge/testnet/await"
)

// zoneServer is a name server on this machine with the given records.
type zoneServer struct {
	records []dns.RR
	rcode   int  // if not 0, the server answers with this code
	short   bool // the server truncates all answers over UDP
}

func (z *zoneServer) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	_, udp := w.RemoteAddr().(*net.UDPAddr)
	w.WriteMsg(z.reply(q, z.short && udp))
}

func (z *zoneServer) reply(q *dns.Msg, truncated bool) *dns.Msg {
	var m dns.Msg
	m.SetReply(q)
	m.Rcode, m.Truncated = z.rcode, truncated
	if !truncated && z.rcode == 0 {
		known := false
		for _, rr := range z.records {
			same := strings.EqualFold(rr.Header().Name, q.Question[0].Name)
			known = known || same
			if same && rr.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
		if !known {
			m.Rcode = dns.RcodeNameError
		}
	}
	return &m
}

// resolve is a resolver that calls reply directly.
func (z *zoneServer) resolve(_ context.Context, name string, kind uint16) (answer, error) {
	var q dns.Msg
	q.SetQuestion(name, kind)
	return parseAnswer(z.reply(&q, false), kind), nil
}

// start serves on a port of 127.0.0.1, over UDP and TCP, until the test ends.
func (z *zoneServer) start(t *testing.T) (port string) {
	t.Helper()
	for range 20 {
		packets, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		stream, err := net.Listen("tcp", packets.LocalAddr().String())
		if err != nil { // another program uses this TCP port
			packets.Close()
			continue
		}
		for _, s := range []*dns.Server{{PacketConn: packets, Handler: z}, {Listener: stream, Handler: z}} {
			go s.ActivateAndServe()
			t.Cleanup(func() { s.Shutdown() })
		}
		_, port, _ = net.SplitHostPort(packets.LocalAddr().String())
		return port
	}
	t.Fatal("no port is free for both UDP and TCP")
	return ""
}

// resolverAt returns a resolver for name servers at a port, in the order of a resolv.conf.
func resolverAt(t *testing.T, port string, servers ...string) resolver {
	t.Helper()
	n := nameServers{conf: filepath.Join(t.TempDir(), "resolv.conf"), port: port}
	text := ""
	for _, s := range servers {
		text += "nameserver " + s + "\n"
	}
	if err := os.WriteFile(n.conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return n.query
}

func zoneOf(t testing.TB, text string) []dns.RR {
	t.Helper()
	var list []dns.RR
	for p := dns.NewZoneParser(strings.NewReader(text), "robots.example.com.", ""); ; {
		rr, ok := p.Next()
		if !ok {
			if err := p.Err(); err != nil {
				t.Fatal(err)
			}
			return list
		}
		list = append(list, rr)
	}
}

var robots = Domain{"robots.example.com."}

const zoneText = `
_achbridge._udp       60 PTR krang._achbridge._udp
_achbridge._udp       60 PTR Left\ Arm\.1._achbridge._udp
_achbridge._udp       60 PTR KRANG._achbridge._udp
_achbridge._udp       60 PTR elsewhere._http._tcp
krang._achbridge._udp 20 SRV 10 0 9000 backup
krang._achbridge._udp 20 SRV 0 0 8076 krang
krang._achbridge._udp 20 TXT "v=1" "net=11111111" "node=a1ffffffffffffffffffffffffffffff" "ch.imu=16x64" "more=3"
krang                 5  A    192.0.2.7
krang                 30 AAAA 2001:db8::7
krang                 30 AAAA fe80::7
Left\ Arm\.1._achbridge._udp 60 SRV 0 0 8076 arm
Left\ Arm\.1._achbridge._udp 60 TXT ""
arm                   60 A    192.0.2.8
`

func TestReadZoneOverUDPAndTCP(t *testing.T) {
	for name, z := range map[string]*zoneServer{"by udp": {}, "by tcp": {short: true}} {
		z.records = zoneOf(t, zoneText)
		got, err := robots.read(t.Context(), resolverAt(t, z.start(t), "127.0.0.1"))
		if err != nil || got.badHost != nil {
			t.Errorf("%s: got %v and %v, want no error", name, err, got.badHost)
		}
		if got.ttl != 5*time.Second {
			t.Errorf("%s: got %v until it is read again, want that of the shortest record, 5s", name, got.ttl)
		}
		if len(got.hosts) != 2 {
			t.Fatalf("%s: got %+v, want two hosts", name, got.hosts)
		}
		arm, krang := got.hosts[0], got.hosts[1]
		if arm.peer.Host != "Left-Arm.1" || arm.peer.Node != "" || arm.port != 8076 || !slices.Equal(arm.addrs, addrs("192.0.2.8")) {
			t.Errorf("%s: got %+v, want Left-Arm.1 at 192.0.2.8:8076, of which nothing more is said", name, arm)
		}
		if krang.peer.Host != "krang" || krang.peer.Node != node("a1") || krang.peer.More != 3 || krang.port != 8076 ||
			!slices.Equal(krang.addrs, addrs("192.0.2.7", "2001:db8::7")) {
			t.Errorf("%s: got %+v, want krang as its TXT record says, at the first SRV record's port", name, krang)
		}
	}
}

func addrs(texts ...string) (list []netip.Addr) {
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func TestZoneOmitsOnlyHostsWithWrongRecords(t *testing.T) {
	for name, c := range map[string]struct{ change, why string }{
		"no SRV":       {`bad._achbridge._udp 60 TXT ""`, "no SRV record"},
		"no port":      {`bad._achbridge._udp 60 SRV 0 0 0 arm`, "names no port"},
		"not offered":  {`bad._achbridge._udp 60 SRV 0 0 8076 .`, "names no port"},
		"no address":   {`bad._achbridge._udp 60 SRV 0 0 8076 nowhere`, "no address for nowhere.robots.example.com."},
		"TXT nonsense": {"bad._achbridge._udp 60 SRV 0 0 8076 arm\nbad._achbridge._udp 60 TXT \"v=1\" \"net=x\"", "not 8 hex digits"},
	} {
		z := &zoneServer{records: zoneOf(t, zoneText+"_achbridge._udp 60 PTR bad._achbridge._udp\n"+c.change)}
		got, err := robots.read(t.Context(), z.resolve)
		if err != nil || len(got.hosts) != 2 || !errors.Is(got.badHost, errRecord) || !strings.Contains(got.badHost.Error(), c.why) {
			t.Errorf("%s: got %d hosts, %v and %v, want the two others and %q", name, len(got.hosts), err, got.badHost, c.why)
		}
	}
}

func TestZoneWithoutHostsIsReadWithoutError(t *testing.T) {
	z := &zoneServer{records: zoneOf(t, "krang 5 A 192.0.2.7")}
	got, err := robots.read(t.Context(), z.resolve)
	if err != nil || got.badHost != nil || len(got.hosts) != 0 || got.validFor() != resolveAgain {
		t.Errorf("got %+v, %v, want no host, and to read again after %v", got, err, resolveAgain)
	}
}

func TestQueryTriesNextNameServer(t *testing.T) {
	z := &zoneServer{records: zoneOf(t, zoneText)}
	ask := resolverAt(t, z.start(t), "127.0.0.9", "127.0.0.1") // no server listens at the first
	if got, err := robots.read(t.Context(), ask); err != nil || len(got.hosts) != 2 {
		t.Errorf("got %+v, %v, want both hosts", got, err)
	}
	broken := &zoneServer{rcode: dns.RcodeServerFailure}
	if _, err := robots.read(t.Context(), resolverAt(t, broken.start(t), "127.0.0.9", "127.0.0.1")); err == nil || !strings.Contains(err.Error(), "SERVFAIL") {
		t.Errorf("got %v, want that the name server fails", err)
	}
	if _, err := robots.read(t.Context(), nameServers{conf: os.DevNull}.query); err == nil || !strings.Contains(err.Error(), "no name server") {
		t.Errorf("got %v, want that there is no name server", err)
	}
}

// A query that is in progress ends with its context.
func TestQueryEndsWithContext(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, port, _ := net.SplitHostPort(silent.LocalAddr().String())
	conf := resolverAt(t, port, "127.0.0.1")
	await.True(t, "a look that ends before the time for an answer is over", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			silent.ReadFrom(make([]byte, udpPayload))
			cancel()
		}()
		begin := time.Now()
		if _, err := robots.read(ctx, conf); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was canceled", err)
		}
		return time.Since(begin) < answerTimeout
	})
}

func TestZoneWithTooManyHostsIsTruncated(t *testing.T) {
	text := "arm 60 A 192.0.2.8\n"
	for i := range maxZoneHosts + 5 {
		text += fmt.Sprintf("_achbridge._udp 60 PTR h%d._achbridge._udp\nh%[1]d._achbridge._udp 60 SRV 0 0 8076 arm\n", i)
	}
	z := &zoneServer{records: zoneOf(t, text)}
	got, err := robots.read(t.Context(), z.resolve)
	if err != nil || len(got.hosts) != maxZoneHosts || got.badHost == nil {
		t.Errorf("got %d hosts, %v and %v, want %d and that there are more", len(got.hosts), err, got.badHost, maxZoneHosts)
	}
}

func TestFollowRereadsExpiredZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zoneServer{records: zoneOf(t, zoneText)}
		ctx, cancel := context.WithCancel(t.Context())
		begin, reads := time.Now(), 0
		robots.follow(ctx, z.resolve, Config{}.logger(), func(hosts []record) {
			if reads++; reads == 3 {
				cancel()
			}
		})
		if took := time.Since(begin); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("read records with a TTL of 5 s three times in %v, want 10 s to 11 s", took)
		}
	})
}

func TestParseDomainRefusesInvalidNames(t *testing.T) {
	for value, why := range map[string]string{
		"": "not a DNS domain", "a..b": "not a DNS domain", "robots example": "not a DNS domain", "local": "mDNS", "x.local.": "mDNS",
		strings.Repeat("a.", 120) + "abc": "longer", strings.Repeat("a", 64) + ".de": "not a DNS domain",
	} {
		if _, err := ParseDomain(value); err == nil || !strings.Contains(err.Error(), why) || !strings.HasPrefix(err.Error(), strconv.Quote(value)) {
			t.Errorf("%q: got %v, want %q", value, err, why)
		}
	}
	for _, value := range []string{"robots.example.com", "Robots.Example.COM."} {
		if d, err := ParseDomain(value); err != nil || d.String() != "robots.example.com" {
			t.Errorf("%q: got %v, %v, want robots.example.com", value, d, err)
		}
	}
}

func TestInstanceLabel(t *testing.T) {
	for name, want := range map[string]string{
		`krang._achbridge._udp.x.`: "krang", `Left\ Arm\.1._achbridge`: "Left Arm.1", `B\195\188ro.x`: "Büro", `a\\b.x`: `a\b`, `end\`: `end\`, `\25`: "25", "": "",
	} {
		if got := instanceLabel(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
