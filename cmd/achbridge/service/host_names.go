package service

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"achbridge/cmd/achbridge/config"
)

// HostNames are the lower-case names under which this host accepts HTTP requests.
//
// Any web page can have its own name resolve to this host (DNS rebinding). The browser then treats answers of this host
// as the page's own data. But the browser sends that name in the header Host. So a request is served only if its Host is
// an address, or a name that no unknown party can have resolve to this host.
type HostNames []string

// OwnNames returns the names of a host, with those listed in http_hosts.
func OwnNames(name string, listed []string) HostNames {
	system, _ := os.Hostname()
	short, _, _ := strings.Cut(system, ".")
	names := HostNames{"localhost", name, name + ".local", system, short, short + ".local"}
	names = append(names, listed...)
	for i, n := range names {
		names[i] = strings.TrimSuffix(strings.ToLower(n), ".")
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "" || strings.HasPrefix(n, ".") })
}

// has reports whether a request with that Host, NAME or NAME:PORT, is for this host.
func (names HostNames) has(host string) bool {
	name := host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		if strings.Trim(host[i+1:], "0123456789") != "" {
			return false
		}
		name = host[:i]
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		inner, closed := strings.CutSuffix(inner, "]")
		ip, err := netip.ParseAddr(inner)
		return closed && err == nil && ip.Is6()
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.Is4()
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	return name != "" && slices.Contains(names, name)
}

// ForOurHosts wraps next, so that it serves only requests whose Host is one of names. Requests without Host, as in
// HTTP/1.0, may only ask for health: they do not come from a browser.
func ForOurHosts(next http.Handler, names func() HostNames) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		if r.Host == "" && health || names().has(r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		http.Error(w, misdirected(r.Host), http.StatusMisdirectedRequest)
	})
}

func misdirected(host string) string {
	if host == "" {
		return "without Host only /healthz and /readyz are answered; other requests must name an address, or a name in http_hosts"
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if !config.IsHTTPHost(name) {
		name = "NAME"
	}
	return fmt.Sprintf("%q is no name of this host as far as this program knows. Ask by an address, or list the name in the configuration of the daemon, http_hosts: [%s], and let achbridge reload read it",
		host, name)
}
