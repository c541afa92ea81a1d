package config

import (
	"fmt"
	"net"
	"regexp"
)

// HTTPAddress is the address where the daemon serves its page and metrics; "" switches them
// off. Everybody who reaches the address can read them. Without a host it is the loopback
// interface.
type HTTPAddress string

func (h *HTTPAddress) String() string { return string(*h) }

func (h *HTTPAddress) Type() string { return "ADDRESS" }

func (h *HTTPAddress) Set(text string) error {
	if text == "" || text == "off" {
		*h = ""
		return nil
	}
	if _, err := net.ResolveTCPAddr("tcp", text); err != nil {
		return fmt.Errorf("%q: want :PORT, ADDRESS:PORT or off, as in :9476", text)
	}
	*h = HTTPAddress(text)
	return nil
}

var hostPattern = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?$`)

// HTTPHostIn returns the host name at the start of text, in the form of an entry of
// http_hosts, or "" when there is none.
func HTTPHostIn(text string) string { return hostPattern.FindString(text) }

// checkHTTPHost says what is wrong with an entry of http_hosts.
func checkHTTPHost(text string) error {
	if !hostPattern.MatchString(text) {
		return fmt.Errorf("%q: want a name alone, without port or pattern, as in robot.example.com", text)
	}
	return nil
}
