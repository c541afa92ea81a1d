package testnet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// meshArrivals receives all packets and formats each as "at from>to payload".
func meshArrivals(m *Mesh[int]) (all []string) {
	for {
		at, ok := m.Next()
		if !ok {
			return all
		}
		for a, ok := m.Receive(at); ok; a, ok = m.Receive(at) {
			all = append(all, fmt.Sprintf("%v %d>%d %d", at, a.From, a.To, a.Payload))
		}
	}
}

func TestBroadcastUsesLinkOfEachDestination(t *testing.T) {
	m := NewMesh[int](1)
	for _, name := range []string{"a", "b", "c", "d"} {
		m.AddHost(name, params(t, "delay=10ms"))
	}
	for target, text := range map[string]string{"a>c": "delay=30ms", "d": "cut"} {
		if err := m.Change(0, target, text); err != nil {
			t.Fatal(err)
		}
	}
	m.Send(0, 0, Everyone, 100, 7)
	if got, want := meshArrivals(m), []string{"10ms 0>1 7", "30ms 0>2 7"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSimultaneousArrivalsKeepSendOrder(t *testing.T) {
	m := NewMesh[int](1)
	for _, name := range []string{"a", "b", "c"} {
		m.AddHost(name, params(t, "delay=10ms"))
	}
	want := []string{"10ms 2>0 0", "10ms 0>1 1", "10ms 1>2 2", "10ms 0>2 3"}
	for i, d := range []direction{{2, 0}, {0, 1}, {1, 2}, {0, 2}} {
		m.Send(0, d.from, d.to, 100, i)
	}
	if got := meshArrivals(m); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFailedChangeChangesNothing(t *testing.T) {
	m := NewMesh[int](1)
	m.AddHost("a", params(t, "loss=10%,burst=3"))
	m.AddHost("b", Params{})
	before := fmt.Sprint(m.Settings())
	for target, text := range map[string]string{"": "burst=3,loss=90%", "a>b": "rate=fast", "b>a": "loss=2"} {
		if err := m.Change(0, target, text); err == nil {
			t.Errorf("%q %s: got no error", target, text)
		}
	}
	if after := fmt.Sprint(m.Settings()); after != before {
		t.Errorf("got %s, want %s as before", after, before)
	}
}

func TestCountsAddUpThroughAllChanges(t *testing.T) {
	const plain = "rate=none,stall=none,fade=none,trace=none,wifi=none,air=none,"
	changes := []string{plain + "wifi=busy", plain + "wifi=edge,air=hall", plain + "trace=testdata/short.up,from=3ms", plain + "stall=2ms/10ms,rate=5mbit",
		plain + "fade=40ms/20ms/12kbit", plain + "delay=1ms", plain + "rate=2mbit", "cut", "up", "up", "cut", "rate=1mbit", "rate=none", "rate=20mbit", "delay=20ms", "delay=0", "loss=20%,burst=2", "loss=0", "reorder=20%", "dup=20%", "queue=4KiB", "mtu=1000", "mtu=none", "jitter=5ms"}
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		l := NewLink[int](seed, Params{})
		var now, last time.Duration
		arrived := 0
		for i := range 2000 {
			now += time.Duration(random.Int64N(int64(2 * ms)))
			for _, ok := l.Receive(now); ok; _, ok = l.Receive(now) {
				arrived++
			}
			if random.IntN(20) == 0 {
				p, err := l.Params().With(changes[random.IntN(len(changes))])
				if err == nil { // some changes conflict, such as a rate and a trace
					l.Set(now, p)
				}
			}
			if sent := l.Send(now, 40+random.IntN(1400), i); sent.Outcome <= Twice && l.Params().Wifi == "" && (sent.Departs < now || sent.Arrives < sent.Departs) {
				t.Fatalf("seed %d, packet %d: got %+v at %v, want it later", seed, i, sent, now)
			}
		}
		for at, ok := l.Next(); ok; at, ok = l.Next() {
			if at < last {
				t.Fatalf("seed %d: got an arrival at %v after %v", seed, at, last)
			}
			last = at
			if _, ok := l.Receive(at); ok {
				arrived++
			}
		}
		c := l.Counts()
		if sum := c.Delivered + c.Lost + c.Overflow + c.TooBig + c.CutOff; sum != c.Sent || arrived < int(c.Delivered) || l.bytes < 0 {
			t.Errorf("seed %d: got %+v, %d arrived: want the sum closed", seed, c, arrived)
		}
	}
}
