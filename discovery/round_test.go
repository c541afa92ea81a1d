package discovery

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// runSchedule runs q until end and returns when queries were due.
func runSchedule(q *querySchedule, end time.Time, links []link, each func(now time.Time)) (asked []time.Duration) {
	for now := q.nextAt; now.Before(end); now = q.nextAt {
		if each != nil {
			each(now)
		}
		if q.due(now, links) {
			asked = append(asked, now.Sub(t0))
		}
	}
	return asked
}

func TestQueryIntervalGrowsToAMinute(t *testing.T) {
	q := newQuerySchedule(t0)
	asked := runSchedule(&q, after(10*time.Minute), []link{testLink(2, "eth0")}, nil)
	if len(asked) < 13 || len(asked) > 18 || asked[0] != 0 {
		t.Errorf("got rounds at %v, want about 15 in ten minutes, the first at once", asked)
	}
	for i, want := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		got := (asked[i+1] - asked[i]).Seconds() / float64(want)
		if got < 0.9 || got > 1.11 {
			t.Errorf("got round %d after %v, want about %d s", i+1, asked[i+1]-asked[i], want)
		}
	}
}

func TestQueryOfAnotherHostReplacesOurs(t *testing.T) {
	q := newQuerySchedule(t0)
	eth, wifi := testLink(2, "eth0"), testLink(3, "wlan0")
	asked := runSchedule(&q, after(time.Hour), []link{eth}, func(now time.Time) { q.noteOther(now, 2) })
	if len(asked) != 0 {
		t.Errorf("got rounds at %v although somebody always asked just before", asked)
	}
	q = newQuerySchedule(t0)
	asked = runSchedule(&q, after(time.Hour), []link{eth, wifi}, func(now time.Time) { q.noteOther(now, 2) })
	if len(asked) < 50 {
		t.Errorf("got %d rounds, want all: nobody asked on wlan0", len(asked))
	}
}

func TestRestartResetsQueryInterval(t *testing.T) {
	q := newQuerySchedule(t0)
	runSchedule(&q, after(10*time.Minute), []link{testLink(2, "eth0")}, nil)
	q.restart(after(10 * time.Minute))
	if wait := q.nextAt.Sub(after(10 * time.Minute)); wait < 20*time.Millisecond || wait > 520*time.Millisecond {
		t.Errorf("got the next round in %v, want within half a second", wait)
	}
}

func TestLaterQueriesAlternateFamilies(t *testing.T) {
	both := []family{ip4, ip6}
	q := newQuerySchedule(t0)
	asked := func() (on [][]family) {
		for range 5 {
			q.due(q.nextAt, nil)
			on = append(on, q.families(both))
			if got := q.families([]family{ip6}); !slices.Equal(got, []family{ip6}) {
				t.Errorf("got queries on %v, want them on the only family", got)
			}
		}
		return on
	}
	want := [][]family{both, both, {ip4}, {ip6}, {ip4}}
	if got := asked(); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got queries on %v, want %v", got, want)
	}
	q.restart(t0)
	if got := asked(); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("on a new network: got queries on %v, want %v", got, want)
	}
}

// A query of another host replaces ours only if both query and answers are multicast on this network.
func TestUnicastQueryOfAnotherHostIsIgnored(t *testing.T) {
	eth := testLink(2, "eth0", "10.0.0.1/24")
	w := &browseState{Browser: &Browser{}, queries: newQuerySchedule(t0), links: []link{eth}, allLinks: []link{eth}, startedAt: t0}
	for _, c := range []struct {
		name    string
		to      netip.Addr
		class   uint16
		counted bool
	}{
		{"to this host only", eth.prefixes[0].Addr(), dns.ClassINET, false},
		{"for unicast answers", group4, dns.ClassINET | classFlush, false},
		{"to all", group4, dns.ClassINET, true},
	} {
		m := new(dns.Msg)
		m.Question = []dns.Question{{Name: serviceName, Qtype: dns.TypePTR, Qclass: c.class}}
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		p, err := parsePacket(b)
		if err != nil {
			t.Fatal(err)
		}
		w.learnPacket(t0, receivedPacket{p, arrival{from: netip.AddrPortFrom(eth.prefixes[0].Addr().Next(), mdnsPort), to: c.to, ifIndex: 2}})
		if counted := len(w.queries.lastOther) > 0; counted != c.counted {
			t.Errorf("%s: counted as ours: %v", c.name, counted)
		}
	}
}
