package discovery

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"
)

// AchdSearch answers the searches of achd and achtool: a one-shot query for the SRV record of CHANNEL._ach._tcp.local,
// from any port except that of mDNS (RFC 6762, section 6.7). These programs do not listen to announcements.
type AchdSearch struct {
	Interfaces []string // like Config.Interfaces
	// Listen is the address at which achd's clients are served. An unspecified address means all addresses of this host.
	// Clients of achd 2.0 ignore the port.
	Listen netip.AddrPort
	// Serves reports whether the host at from may use a channel of this host over achd's protocol.
	Serves func(from netip.Addr, channel string) bool
	Log    *slog.Logger
}

// Run answers searches until ctx ends.
func (a AchdSearch) Run(ctx context.Context) error {
	var problem lastingError
	for ctx.Err() == nil {
		if err := a.answer(ctx); ctx.Err() == nil && problem.isNew(err) {
			a.Log.Warn("cannot answer searches of achd, trying again", "err", err)
		}
		select {
		case <-time.After(listInterfacesEvery):
		case <-ctx.Done():
		}
	}
	return nil
}

// answer answers queries over IPv4, the only family that achd uses, until a socket fails.
func (a AchdSearch) answer(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var links atomic.Pointer[[]link]
	var readers sync.WaitGroup
	defer readers.Wait()
	group := sockets{family: ip4, read: func(s *socket) { readers.Go(func() { cancel(a.serve(s, &links)) }) }}
	defer group.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		list, _ := usableLinks(a.Interfaces)
		links.Store(&list)
		group.retain(list)
		for _, l := range list {
			// An interface without IPv4 also causes an error. It is tried again in the next round.
			if err := group.join(l.iface); len(group.list) == 0 {
				return err
			}
		}
		timer.Reset(listInterfacesEvery)
	}
}

// serve answers the queries that s receives until s is closed.
func (a AchdSearch) serve(s *socket, links *atomic.Pointer[[]link]) error {
	limiter := newRateLimiter()
	for buf := make([]byte, maxPacket+1); ; {
		n, at, err := s.receive(buf)
		switch {
		case err != nil:
			return err
		case n <= maxPacket && bytes.Contains(bytes.ToLower(buf[:n]), []byte("\x04_ach\x04_tcp")) && limiter.allow(time.Now(), at.from.Addr()):
			if reply, from := a.reply(buf[:n], at, *links.Load()); reply != nil {
				_, _ = s.v4.WriteTo(reply, &ipv4.ControlMessage{IfIndex: at.ifIndex, Src: from.AsSlice()}, net.UDPAddrFromAddrPort(at.from))
			}
		}
	}
}

// achdTTL is the TTL of an answer in seconds. It is short, since one-shot queriers do not learn of changes.
const achdTTL = 10

// reply returns the answer to the query b and the source address for the answer. The answer is nil if b is not a search
// that Serves allows, or if the client is not on a subnet of the interface that received b.
func (a AchdSearch) reply(b []byte, at arrival, links []link) (reply []byte, ours netip.Addr) {
	client := at.from.Addr().Unmap()
	var query dns.Msg
	if at.from.Port() == mdnsPort || query.Unpack(b) != nil || query.Response || query.Opcode != dns.OpcodeQuery || len(query.Question) != 1 {
		return nil, ours
	}
	q := query.Question[0]
	channel, ok := searchedChannel(q.Name)
	if !ok || q.Qtype != dns.TypeSRV || q.Qclass&^classFlush != dns.ClassINET {
		return nil, ours
	}
	ours = addressFor(client, at.ifIndex, links)
	if !ours.IsValid() || at.to != group4 && at.to != ours {
		return nil, ours
	}
	if bound := a.Listen.Addr().Unmap(); !bound.IsUnspecified() && bound != ours || !a.Serves(client, channel) {
		return nil, ours
	}
	answer := dns.Msg{Question: query.Question}
	answer.Id, answer.Response, answer.Authoritative = query.Id, true, true
	answer.Answer = []dns.RR{&dns.SRV{
		Hdr:    dns.RR_Header{Name: q.Name, Rrtype: dns.TypeSRV, Class: dns.ClassINET, Ttl: achdTTL},
		Target: ours.String() + ".", // achd parses this as an address, so it does not have to resolve a name
		Port:   a.Listen.Port(),
	}}
	reply, err := answer.Pack()
	if err != nil {
		return nil, ours
	}
	return reply, ours
}

const achdService = "._ach._tcp." + domain + "."

// searchedChannel returns the channel in a name CHANNEL._ach._tcp.local. achd splits a channel with dots into labels.
func searchedChannel(name string) (channel string, ok bool) {
	at := len(name) - len(achdService)
	if at < 1 || !strings.EqualFold(name[at:], achdService) {
		return "", false
	}
	channel = strings.ReplaceAll(name[:at], `\.`, ".")
	return channel, checkName(channel) == nil
}

// addressFor returns our IPv4 address on the interface, in the subnet that contains from.
func addressFor(from netip.Addr, ifIndex int, links []link) netip.Addr {
	for _, l := range links {
		for _, p := range l.prefixes {
			if l.iface.Index == ifIndex && p.Addr().Is4() && p.Masked().Contains(from) {
				return p.Addr()
			}
		}
	}
	return netip.Addr{}
}
