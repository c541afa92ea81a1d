package config

import (
	"net/netip"

	"achbridge/bridge/rule"
)

// buildAchd parses and checks the section achd.
func (c *Config) buildAchd(b *ruleBuilder) {
	for i, text := range c.AchdFrom {
		p, err := parseNetwork(text)
		if err != nil {
			b.add(c.placeOf("achd.from", i), "%q: want a network or an address, as in 192.168.1.0/24 or fd00::7", text)
			continue
		}
		c.AchdNetworks = append(c.AchdNetworks, p)
	}
	for i, text := range c.AchdChannels {
		b.addError(c.placeOf("achd.channels", i), rule.CheckPattern("channel", text))
	}
	for i, text := range c.AchdAccept {
		b.addError(c.placeOf("achd.accept", i), rule.CheckPattern("channel", text))
	}
}

// parseNetwork parses a network prefix, or an address as the prefix of that address only.
func parseNetwork(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return a.Unmap().Prefix(a.Unmap().BitLen())
	}
	p, err := netip.ParsePrefix(text)
	if err == nil && p.Addr().Is4In6() { // addresses of clients are never IPv4-mapped
		return p.Addr().Unmap().Prefix(p.Bits() - 96)
	}
	return p, err
}

// achdIdle returns a warning if the section achd has no effect.
func (c *Config) achdIdle() []string {
	rules := len(c.AchdFrom) > 0 && len(c.AchdChannels)+len(c.AchdAccept) > 0
	switch {
	case c.AchdListen != "" && !rules:
		return []string{"achd serves nothing: the section achd: of the file names no hosts (from) or no channels (channels, accept)"}
	case c.AchdListen == "" && (c.AchdFrom != nil || c.AchdChannels != nil || c.AchdAccept != nil):
		return []string{"achd is off: its rules do nothing without an address, as in listen: ':8076' below achd:, or run --achd :8076"}
	}
	return nil
}
