package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/miekg/dns"
)

const (
	answerTimeout = 1500 * time.Millisecond // timeout for one server
	maxServers    = 3                       // limit of resolv.conf(5)
	serverRounds  = 2                       // how many times to try all servers, one after the other
	udpPayload    = 1232                    // largest answer over UDP in bytes; longer answers use TCP
)

// nameServers queries the name servers in a resolv.conf(5) file. It reads the file for each query, since the servers change
// with the host's network.
type nameServers struct {
	conf string // path of the resolv.conf file
	port string // empty means the port in conf or 53; tests set it
}

// resolver sends a query for records of a name and type. "No such name" is an answer, not an error.
type resolver func(ctx context.Context, name string, kind uint16) (answer, error)

// answer is the answer to one query.
type answer struct {
	records []dns.RR      // records of the queried type; empty if the name or the type does not exist
	ttl     time.Duration // shortest TTL of the records, or of "no such name"; 0 means unknown
}

// query tries one server after the other until one answers. It is a resolver.
func (n nameServers) query(ctx context.Context, name string, kind uint16) (answer, error) {
	conf, err := dns.ClientConfigFromFile(n.conf)
	if err == nil && len(conf.Servers) == 0 {
		err = errors.New("lists no name server")
	}
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", n.conf, err)
	}
	var q dns.Msg
	q.SetQuestion(name, kind)
	q.SetEdns0(udpPayload, false)
	for range serverRounds {
		for _, server := range conf.Servers[:min(len(conf.Servers), maxServers)] {
			var reply *dns.Msg
			if reply, err = exchange(ctx, &q, net.JoinHostPort(server, cmp.Or(n.port, conf.Port))); err == nil {
				return parseAnswer(reply, kind), nil
			}
			if ctx.Err() != nil {
				return answer{}, ctx.Err()
			}
		}
	}
	return answer{}, fmt.Errorf("%s %s: %w", name, dns.TypeToString[kind], err)
}

// exchange queries one server over UDP, and again over TCP if the answer is too long for UDP.
func exchange(ctx context.Context, q *dns.Msg, server string) (*dns.Msg, error) {
	for _, network := range []string{"udp", "tcp"} {
		client := dns.Client{Net: network, Timeout: answerTimeout}
		reply, err := exchangeOver(ctx, client, q, server)
		switch {
		case err != nil:
			return nil, err
		case reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError:
			return nil, fmt.Errorf("name server %s: %s", server, dns.RcodeToString[reply.Rcode])
		case !reply.Truncated:
			return reply, nil
		}
	}
	return nil, fmt.Errorf("name server %s: answer truncated", server)
}

// exchangeOver does what client.ExchangeContext does, but also returns when ctx ends.
func exchangeOver(ctx context.Context, client dns.Client, q *dns.Msg, server string) (*dns.Msg, error) {
	conn, err := client.DialContext(ctx, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	reply, _, err := client.ExchangeWithConnContext(ctx, q, conn)
	return reply, err
}

// recordsOf returns the records of type T in an answer.
func recordsOf[T dns.RR](a answer) (list []T) {
	for _, rr := range a.records {
		if r, ok := rr.(T); ok {
			list = append(list, r)
		}
	}
	return list
}

// parseAnswer returns the records of type kind in reply, without the CNAME records that lead to them.
func parseAnswer(reply *dns.Msg, kind uint16) (a answer) {
	shorter := func(seconds uint32) {
		if ttl := time.Duration(seconds) * time.Second; a.ttl == 0 || ttl < a.ttl {
			a.ttl = ttl
		}
	}
	for _, rr := range reply.Answer {
		shorter(rr.Header().Ttl)
		if rr.Header().Rrtype == kind {
			a.records = append(a.records, rr)
		}
	}
	if len(reply.Answer) > 0 {
		return a
	}
	for _, rr := range reply.Ns {
		if soa, ok := rr.(*dns.SOA); ok { // RFC 2308, section 5
			shorter(min(soa.Minttl, soa.Hdr.Ttl))
		}
	}
	return a
}
