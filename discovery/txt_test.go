package discovery

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func robot() Peer {
	return Peer{Host: "robot", Node: node("a1"), Network: "11111111", lifetime: 10 * time.Second, Ports: Ports{8076, 8077},
		Channels: []Channel{{"camera", 4, 300000}, {"imu", 16, 64}}}
}

func TestBuildTXT(t *testing.T) {
	got := strings.Join(buildTXT(robot(), 8076), " ")
	want := "v=1 net=11111111 node=" + node("a1") + " port=8076 life=10 quic=8076 sctp=8077 ch.camera=4x300000 ch.imu=16x64"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTXTRoundTrip(t *testing.T) {
	want := robot()
	got, port, err := parseTXT(buildTXT(want, 9000))
	want.Host = ""
	if err != nil || port != 9000 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %d, %v, want %+v, 9000", got, port, err, want)
	}
}

func TestTXTHasOnlyPortsListenedOn(t *testing.T) {
	for want, ports := range map[string]Ports{
		"":                    {},
		"quic=8076":           {QUIC: 8076},
		"sctp=8077":           {SCTP: 8077},
		"quic=8076 sctp=8077": {QUIC: 8076, SCTP: 8077},
	} {
		p := robot()
		p.Channels, p.Ports = nil, ports
		txt := buildTXT(p, 8076)
		if got := strings.Join(txt[5:], " "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, _, err := parseTXT(txt); err != nil || got.Ports != ports {
			t.Errorf("got %+v, %v, want %+v", got.Ports, err, ports)
		}
	}
}

func TestTXTCountsChannelsThatDoNotFit(t *testing.T) {
	p := robot()
	p.Channels, p.More = nil, 5
	for i := range 200 {
		p.Channels = append(p.Channels, Channel{fmt.Sprintf("joint-%03d", i), 16, 512})
	}
	txt := buildTXT(p, 8076)
	size := 0
	for _, s := range txt {
		size += len(s) + 1
	}
	if size > maxTXT {
		t.Errorf("got %d bytes, want at most %d", size, maxTXT)
	}
	got, _, err := parseTXT(txt)
	if err != nil || len(got.Channels) < 30 || len(got.Channels)+got.More != 205 {
		t.Errorf("got %d channels and %d more, %v, want 205 in all", len(got.Channels), got.More, err)
	}
}

func TestTXTCountsHiddenChannels(t *testing.T) {
	p := robot()
	p.Channels, p.More = nil, 7
	got, _, err := parseTXT(buildTXT(p, 8076))
	if err != nil || got.More != 7 || got.Channels != nil {
		t.Errorf("got %+v, %v, want 7 more", got, err)
	}
}

func TestParseTXTRefusesInvalidRecords(t *testing.T) {
	good := []string{"v=1", "net=11111111", "node=" + node("a1")}
	with := func(s ...string) []string { return append(append([]string{}, s...), good...) }
	many := make([]string, maxChannels+1)
	for i := range many {
		many[i] = fmt.Sprintf("ch.c%d=1x1", i)
	}
	for name, txt := range map[string][]string{
		"nothing":              nil,
		"no version":           good[1:],
		"no node":              good[:2],
		"no network":           {"v=1", good[2]},
		"short node":           with("node=abc"),
		"upper-case node":      with("node=" + strings.ToUpper(node("a1"))),
		"node of zeros":        with("node=" + strings.Repeat("0", 32)),
		"network of zeros":     with("net=00000000"),
		"node with control":    with("node=" + node("a1")[:28] + `\007`),
		"life 0":               with("life=0"),
		"life of years":        with("life=99999999"),
		"negative life":        with("life=-5"),
		"port 0":               with("port=0"),
		"port 65536":           with("port=65536"),
		"port with blank":      with("port= 80"),
		"quic at port 0":       with("quic=0"),
		"quic at 65536":        with("quic=65536"),
		"quic without a port":  with("quic"),
		"quic at a name":       with("quic=https"),
		"negative quic":        with("quic=-1"),
		"sctp at port 0":       with("sctp=0"),
		"sctp at 65536":        with("sctp=65536"),
		"sctp past 16 bits":    with("sctp=73613"),
		"sctp with sign":       with("sctp=+8077"),
		"sctp with zero":       with("sctp=08077"),
		"sctp at two ports":    with("sctp=8077,8078"),
		"one port for both":    with("quic=8076", "sctp=8076"),
		"more than all":        with("more=99999999999999999999"),
		"empty channel":        with("ch.=1x1"),
		"hidden channel":       with("ch..imu=1x1"),
		"channel with slash":   with("ch.a/b=1x1"),
		"channel with escape":  with(`ch.a\027b=1x1`),
		"long channel":         with("ch." + strings.Repeat("a", 64) + "=1x1"),
		"no geometry":          with("ch.imu"),
		"half a geometry":      with("ch.imu=16"),
		"no frames":            with("ch.imu=0x512"),
		"no size":              with("ch.imu=16x0"),
		"leading zero":         with("ch.imu=016x512"),
		"sign":                 with("ch.imu=+16x512"),
		"hex":                  with("ch.imu=0x10x512"),
		"huge frames":          with("ch.imu=1x67108865"),
		"huge channel":         with("ch.imu=16777216x67108864"),
		"overflow":             with("ch.imu=9223372036854775807x9223372036854775807"),
		"more channels":        append(many, good...),
		"more strings":         append(make([]string, maxStrings), good...),
		"channel with newline": with("ch.a\nb=1x1"),
	} {
		if p, _, err := parseTXT(txt); err == nil {
			t.Errorf("%s: accepted as %+v", name, p)
		}
	}
}

func TestParseTXTFollowsRFC6763(t *testing.T) {
	got, port, err := parseTXT([]string{"", "V=1", "NET=11111111", "v=2", "node=" + node("a1"), "node=rubbish", "new=thing", "flag",
		"ch.imu=16x64", "ch.imu=1x1", "ch.IMU=2x2"})
	want := Peer{Node: node("a1"), Network: "11111111", lifetime: defaultLifetime, Channels: []Channel{{"IMU", 2, 2}, {"imu", 16, 64}}}
	if err != nil || port != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %d, %v, want %+v", got, port, err, want)
	}
}

func TestParseTXTRejectsOtherVersions(t *testing.T) {
	if _, _, err := parseTXT([]string{"v=2", "net=11111111", "node=" + node("a1")}); !errors.Is(err, errVersion) {
		t.Errorf("got %v, want errVersion", err)
	}
}

func FuzzTXT(f *testing.F) {
	f.Add(strings.Join(buildTXT(robot(), 8076), "\n"))
	f.Add("v=1\nnet=11111111\nnode=" + node("a1") + "\nsctp=8077\nquic=8076\nport=9")
	f.Add("v=1\nnet=11111111\nnode=" + node("a1") + "\nquic=65535\nsctp=65535")
	f.Add("v=1\nnet=11111111\nnode=" + node("a1") + "\nsctp=0\nquic=\nSCTP=70000")
	f.Add("v=1\nnet=11111111\nnode=" + node("a1") + "\nch.=0x0\nmore=1")
	f.Fuzz(func(t *testing.T, s string) {
		p, port, err := parseTXT(strings.Split(s, "\n"))
		if err != nil {
			return
		}
		p.Host = "robot"
		if port == 0 {
			port = 1
		}
		for _, c := range p.Channels {
			if err := c.check(); err != nil {
				t.Fatalf("accepted a channel that no node has: %v", err)
			}
		}
		cfg := Config{Self: p, Port: port}
		if err := cfg.checkAnnounce(); err != nil {
			t.Fatalf("accepted what cannot be announced: %v", err)
		}
		again, _, err := parseTXT(buildTXT(p, port))
		again.Host = "robot"
		if err != nil || again.Ports != p.Ports || len(again.Channels)+again.More != len(p.Channels)+p.More {
			t.Fatalf("got %+v, %v, want %+v", again, err, p)
		}
	})
}
