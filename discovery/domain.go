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

// Domain is a DNS domain whose zone lists hosts (RFC 6763 over unicast DNS), for networks without multicast. ParseDomain
// returns one.
type Domain struct{ name string } // in lower case, with the dot at the end

// String returns the domain without the dot at its end.
func (d Domain) String() string { return strings.TrimSuffix(d.name, ".") }

// ParseDomain parses the name of a DNS domain. An error begins with the value, in quotes.
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

// follow reads the zone and calls update with its hosts, again whenever the records expire, until ctx ends. While no server
// answers it does not call update, since the robots may be up although the name server is down. It logs an error when the
// error begins or changes.
func (d Domain) follow(ctx context.Context, resolve resolver, log *slog.Logger, update func([]record)) {
	var problem lastingError
	for {
		z, err := d.read(ctx, resolve)
		if ctx.Err() != nil {
			return
		}
		wait := resolveRetry
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
		case <-time.After(wait + rand.N(wait/10+1)): // the jitter spreads hosts that were switched on together
		}
	}
}

// validFor returns how long the zone's records are valid.
func (z zone) validFor() time.Duration {
	if z.ttl == 0 {
		return resolveAgain
	}
	return min(max(z.ttl, minLifetime), maxLifetime)
}
