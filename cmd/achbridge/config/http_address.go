package config

import (
	"fmt"
	"net"
	"regexp"
)

// HTTPAddress is where the daemon serves what anybody may read who reaches it; ""
// is nowhere. Without a host it is the loopback interface.
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

// HTTPHostIn is the name with which text begins, as http_hosts takes it; "" when it begins
// with none.
func HTTPHostIn(text string) string { return hostPattern.FindString(text) }

// checkHTTPHost says what is wrong with an entry of http_hosts.
func checkHTTPHost(text string) error {
	if !hostPattern.MatchString(text) {
		return fmt.Errorf("%q: want a name alone, without port or pattern, as in robot.example.com", text)
	}
	return nil
}
