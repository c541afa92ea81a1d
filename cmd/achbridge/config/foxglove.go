package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
)

// checkFoxglove checks the section foxglove. It does not read the certificate's file.
func (c *Config) checkFoxglove(b *ruleBuilder) {
	if c.FoxgloveListen != "" && c.FoxgloveCert == "" && !isLoopback(c.FoxgloveListen) {
		b.add(c.placeOf("foxglove.listen", -1), "%q: other hosts could connect, and the token would cross the network unencrypted: give cert too, or --foxglove-cert FILE with a certificate and its key; a port alone is for this host only", c.FoxgloveListen)
	}
	for i, text := range c.FoxgloveOrigins {
		b.addError(c.placeOf("foxglove.origins", i), checkOrigin(text))
	}
}

// isLoopback reports whether only this host can connect to an address on which a server listens. No host means this host.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" || host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// checkOrigin returns an error unless text is the origin of web pages as browsers send it.
func checkOrigin(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Scheme+"://"+u.Host != text {
		return fmt.Errorf("%q: want an origin as browsers send it, as in https://foxglove.example.com", text)
	}
	return nil
}
