package service

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func FuzzHostIsOurs(f *testing.F) {
	for _, s := range []string{"", "krang:80", "[::1]:80", "evil.example", "[fe80::1%25eth0]", "krang.local.", "a:b:c", "[[::1]]", "127.0.0.1.", "%00"} {
		f.Add(s)
	}
	names := OwnNames("krang", []string{"robot.example.com"})
	f.Fuzz(func(t *testing.T, host string) {
		if !names.has(host) {
			return
		}
		name := host
		if h, _, err := net.SplitHostPort(host); err == nil {
			name = h
		}
		if bare, ok := strings.CutPrefix(name, "["); ok {
			name = strings.TrimSuffix(bare, "]") // an address, with a zone that may end with a dot or a bracket
		} else {
			name = strings.TrimSuffix(strings.ToLower(name), ".")
		}
		if _, err := netip.ParseAddr(name); err != nil && !slices.Contains(names, name) {
			t.Errorf("%q is accepted as a name of this host, want it refused", host)
		}
	})
}
