package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
)

const (
	maxZoneHosts     = 256 // maximum number of hosts of one domain
	maxParallelHosts = 8   // maximum number of hosts of a zone that are looked up in parallel
)

// zone is what one reading of a domain's zone has found.
type zone struct {
	hosts   []record      // sorted by name
	ttl     time.Duration // shortest TTL of the answers; 0 means unknown
	badHost error         // why a host was omitted; nil if none was
}

// read reads the hosts of the domain. It omits hosts whose records are invalid. It fails if a query gets no answer.
func (d Domain) read(ctx context.Context, resolve resolver) (z zone, err error) {
	list, err := resolve(ctx, service+"."+d.name, dns.TypePTR)
	if err != nil {
		return zone{}, err
	}
	z.shortenTTL(list)
	instances := instancesOf(list, d)
	if len(instances) > maxZoneHosts {
		instances, z.badHost = instances[:maxZoneHosts], fmt.Errorf("more than %d hosts", maxZoneHosts)
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxParallelHosts)
	for _, name := range instances {
		group.Go(func() error {
			read, r, err := readHost(ctx, resolve, name)
			mu.Lock()
			defer mu.Unlock()
			z.shortenTTL(read...)
			switch {
			case errors.Is(err, errRecord):
				z.badHost = err
				return nil
			case err == nil:
				z.hosts = append(z.hosts, r)
			}
			return err
		})
	}
	err = group.Wait()
	slices.SortFunc(z.hosts, func(a, b record) int { return cmp.Compare(a.peer.Host, b.peer.Host) })
	return z, err
}

// shortenTTL lowers the zone's TTL to the shortest of the answers.
func (z *zone) shortenTTL(answers ...answer) {
	for _, a := range answers {
		if z.ttl == 0 || a.ttl > 0 && a.ttl < z.ttl {
			z.ttl = a.ttl
		}
	}
}

// instancesOf returns the service instances in list without duplicates, at most maxZoneHosts+1.
func instancesOf(list answer, d Domain) (names []string) {
	seen := map[string]bool{}
	for _, rr := range recordsOf[*dns.PTR](list) {
		low := strings.ToLower(rr.Ptr)
		if seen[low] || !strings.HasSuffix(low, "."+service+"."+d.name) || len(names) > maxZoneHosts {
			continue
		}
		seen[low] = true
		names = append(names, rr.Ptr)
	}
	return names
}

// errRecord means that the records of a host are invalid.
var errRecord = errors.New("not a host of achbridge")

// readHost looks up the records of one service. It ignores TXT records without v=, since the author of a zone cannot know a
// node id. read has all answers, for their TTLs.
func readHost(ctx context.Context, resolve resolver, name string) (read []answer, r record, err error) {
	wrong := func(why string) ([]answer, record, error) {
		return read, record{}, fmt.Errorf("%s: %w: %s", name, errRecord, why)
	}
	services, err := resolve(ctx, name, dns.TypeSRV)
	if err != nil {
		return nil, record{}, err
	}
	texts, err := resolve(ctx, name, dns.TypeTXT)
	if err != nil {
		return nil, record{}, err
	}
	read = []answer{services, texts}
	for _, rr := range recordsOf[*dns.TXT](texts) {
		txt := rr.Txt
		if !slices.ContainsFunc(txt, func(s string) bool { return strings.HasPrefix(s, "v=") }) {
			continue
		}
		if r.peer, _, err = parseTXT(txt); err != nil {
			return wrong(err.Error())
		}
		break
	}
	r.peer.Host = HostName(instanceLabel(name))
	list := recordsOf[*dns.SRV](services)
	if len(list) == 0 {
		return wrong("no SRV record")
	}
	srv := slices.MinFunc(list, func(a, b *dns.SRV) int { return cmp.Compare(a.Priority, b.Priority) })
	if r.port = srv.Port; r.port == 0 || srv.Target == "." {
		return wrong("its SRV record names no port")
	}
	for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
		at, err := resolve(ctx, srv.Target, kind)
		if err != nil {
			return nil, record{}, err
		}
		read = append(read, at)
		r.addrs = append(r.addrs, addressesIn(at)...)
	}
	if len(r.addrs) == 0 {
		return wrong("no address for " + srv.Target)
	}
	r.addrs = r.addrs[:min(len(r.addrs), maxAddrs)]
	return read, r, nil
}

// addressesIn returns the addresses in an answer except link-local ones, which need an interface of this host.
func addressesIn(a answer) (addrs []netip.Addr) {
	keep := func(ip []byte) {
		if addr, ok := netip.AddrFromSlice(ip); ok && !addr.Unmap().IsLinkLocalUnicast() {
			addrs = append(addrs, addr.Unmap())
		}
	}
	for _, rr := range recordsOf[*dns.A](a) {
		keep(rr.A)
	}
	for _, rr := range recordsOf[*dns.AAAA](a) {
		keep(rr.AAAA)
	}
	return addrs
}

// instanceLabel returns the first label of a name and resolves the escapes of its presentation form (RFC 4343, 2.1).
func instanceLabel(name string) string {
	var label []byte
	for i := 0; i < len(name) && name[i] != '.'; i++ {
		if name[i] != '\\' || i+1 == len(name) {
			label = append(label, name[i])
			continue
		}
		i++
		if i+3 <= len(name) && isDigits(name[i:i+3]) {
			label = append(label, (name[i]-'0')*100+(name[i+1]-'0')*10+name[i+2]-'0')
			i += 2
			continue
		}
		label = append(label, name[i])
	}
	return string(label)
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
