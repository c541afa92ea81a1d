package discovery

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseStaticForms(t *testing.T) {
	for text, want := range map[string]Static{
		"robot":              {name: "robot", host: "robot", port: 8076},
		"robot:9000":         {name: "robot", host: "robot", port: 9000},
		"robot.lab.example.": {name: "robot.lab.example.", host: "robot.lab.example", port: 8076},
		"10.0.0.2":           {name: "10.0.0.2", host: "10.0.0.2", port: 8076},
		"10.0.0.2:1":         {name: "10.0.0.2", host: "10.0.0.2", port: 1},
		"[fd00::2]:9000":     {name: "fd00::2", host: "fd00--2", port: 9000},
		"[fd00::2]":          {name: "fd00::2", host: "fd00--2", port: 8076},
		"fd00::2":            {name: "fd00::2", host: "fd00--2", port: 8076},
		"[fe80::1%eth0]:1":   {name: "fe80::1%eth0", host: "fe80--1-eth0", port: 1},
	} {
		want.text = text
		if got, err := ParseStatic(text); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestParseStaticErrorSuggestsFix(t *testing.T) {
	for text, why := range map[string]string{
		"":                              "no host",
		":8076":                         "no host",
		"robot:":                        "not a number",
		"robot:0":                       "not a number",
		"robot:65536":                   "not a number",
		"robot:http":                    "not a number",
		"robot:+80":                     "not a number",
		"robot:8076:1":                  "neither a host name nor an address",
		"[fd00::2":                      "neither a host name nor an address",
		"my robot":                      "neither a host name nor an address",
		"-robot":                        "neither a host name nor an address",
		"robot..lab":                    "neither a host name nor an address",
		"ro\x00bot":                     "neither a host name nor an address",
		"robot/imu":                     "neither a host name nor an address",
		"fe80::1":                       "needs its interface",
		"[fe80::1]:8076":                "needs its interface",
		"0.0.0.0:8076":                  "not the address of a host",
		"224.0.0.251":                   "not the address of a host",
		strings.Repeat("a.", 200) + "a": "longer than 253",
	} {
		_, err := ParseStatic(text)
		if err == nil || !strings.Contains(err.Error(), why) || !strings.HasPrefix(err.Error(), strconv.Quote(text)) ||
			!strings.Contains(err.Error(), "HOST:PORT, for example robot:8076, 192.168.1.10:8076 or [fe80::1%eth0]:8076") {
			t.Errorf("%q: got %v, want %q, what was written and the right form", text, err, why)
		}
	}
}

func TestStaticAddressNeedsNoLookup(t *testing.T) {
	s, err := ParseStatic("[::ffff:10.0.0.2]:9000")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := s.resolve(ctx)
	if want := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:9000")}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestLookUpResolvesStaticPeersNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := ParseStatic("10.0.0.2")
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewBrowser(Config{Static: []Static{s}, StaticOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var last, count atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		go s.follow(ctx, b.log, b.lookUpRequests, func([]netip.AddrPort) {
			last.Store(int64(time.Since(begin)))
			count.Add(1)
		})
		lookUp := func(wait, want time.Duration, wantCount int64) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if got := time.Duration(last.Load()); got != want || count.Load() != wantCount {
				t.Errorf("after %v: got look-up %d at %v, want number %d at %v", time.Since(begin), count.Load(), got, wantCount, want)
			}
		}
		lookUp(3*time.Second, 0, 1)
		b.LookUp()
		lookUp(0, 3*time.Second, 2)
		lookUp(resolveAgain, 3*time.Second+resolveAgain, 3)
		cancel()
		synctest.Wait()
	})
}

func FuzzStatic(f *testing.F) {
	for _, s := range []string{"robot:1", "[fe80::1%eth0]:2", "10.0.0.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStatic(text)
		if err == nil && (s.port == 0 || s.name == "" || checkName(s.host) != nil) {
			t.Fatalf("got %+v for %q", s, text)
		}
	})
}
