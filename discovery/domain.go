package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	defaultZoneTTL = 30 * time.Second // when a zone does not say how long its records are valid
	zoneRetry      = 2 * time.Second  // after a failure
	minZoneTTL     = time.Second
	maxZoneTTL     = time.Hour
)

// Domain is a DNS domain whose zone lists hosts (RFC 6763 by unicast DNS), for networks that carry no multicast.
// ParseDomain makes it.
type Domain struct{ name string } // in lower case, with the dot at the end

// String returns the domain without the dot at its end.
func (d Domain) String() string { return strings.TrimSuffix(d.name, ".") }

// ParseDomain parses a DNS domain. An error begins with the value, in quotes.
func ParseDomain(value string) (Domain, error) {
	name := strings.ToLower(dns.Fqdn(value))
	wrong := func(why string) (Domain, error) {
		return Domain{}, fmt.Errorf("%q: %s; write a domain such as robots.example.com", value, why)
	}
	if len(service)+1+len(name) > 254 {
		return wrong("longer than a DNS name can be")
	}
	for l := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if checkName(l) != nil {
			return wrong("not a DNS domain")
		}
	}
	if dns.IsSubDomain("local.", name) {
		return wrong("names under local belong to mDNS, which needs no such entry")
	}
	return Domain{name}, nil
}

// follow reads the zone until ctx ends, again whenever its records expire, and calls tell with the hosts. While no server
// answers, it does not call tell: the robots may be up although the name server is down. It logs a failure when it
// begins.
func (d Domain) follow(ctx context.Context, resolve resolver, log *slog.Logger, update func([]record)) {
	var problem lastingError
	for {
		z, err := d.read(ctx, resolve)
		if ctx.Err() != nil {
			return
		}
		wait := zoneRetry
		if err == nil {
			update(z.hosts)
			err, wait = z.badHost, z.validFor()
		}
		if problem.isNew(err) {
			log.Warn("domain cannot be read, will try again", "domain", d.String(), "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait + rand.N(wait/10+1)): // a jitter spreads hosts that were switched on together
		}
	}
}

// validFor returns how long the zone's records are valid.
func (z zone) validFor() time.Duration {
	if z.ttl == 0 {
		return defaultZoneTTL
	}
	return min(max(z.ttl, minZoneTTL), maxZoneTTL)
}
