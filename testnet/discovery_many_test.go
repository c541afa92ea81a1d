package testnet_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"achbridge/testnet/hosts"
)

// What discovery owes to a network of twenty hosts with fifty channels each; to
// smaller ones their share of the packets.
const (
	foundWithin   = 2 * time.Second // after the last daemon has started
	byeWithin     = time.Second
	announcedLife = 60 * time.Second
	atFirst       = 5 * time.Second
	firstPackets  = 3000 / 20 // of each host
	restingRate   = 20.0 / 20 // packets a second, of each host
	lsWithin      = 2500 * time.Millisecond
)

// tries is how often what the machine may have spoilt is tried.
const tries = 3

func TestManyHostsFindOneAnother(t *testing.T) {
	longRun(t)
	f := newField(t, 20)
	f.findOneAnother()
	f.listsAllChannels()
	f.lsIsQuickAndHonest()
	time.Sleep(15 * time.Second) // questions come ever more seldom
	f.restsFor(20 * time.Second)
	for _, way := range []outage{cutting, unplugging} {
		f.returnsWithoutAStorm(way)
	}
	f.goodbyeIsHeard()
	f.killedHostExpires()
}

// TestMulticastCostOfFewHosts: a host alone, and five.
func TestMulticastCostOfFewHosts(t *testing.T) {
	longRun(t)
	t.Parallel()
	for _, n := range []int{1, 5} {
		f := newField(t, n)
		f.findOneAnother()
		time.Sleep(15 * time.Second)
		f.restsFor(20 * time.Second)
		f.lab.Close()
	}
}

// reader links to all others: it wants a channel of each.
func (f *field) reader() string { return f.names[0] }

// findOneAnother starts all daemons; it fails the test if three times in a row
// not all have found all in time.
func (f *field) findOneAnother() {
	f.t.Helper()
	var began time.Time
	for try := range tries {
		for _, d := range f.daemons {
			d.leave()
		}
		var up time.Time
		began, up = f.startAll(map[string][]string{f.reader(): {"--mirror", "*/" + channelName(0)}})
		found := f.allKnow(f.names, 20*time.Second)
		f.t.Logf("%d hosts: all up %v after the first was started, all found by all %v later", len(f.names), up.Sub(began), found)
		if found <= foundWithin {
			break
		}
		if try == tries-1 {
			f.t.Errorf("got all found by all after %v, want at most %v", found, foundWithin)
		}
	}
	time.Sleep(time.Until(began.Add(atFirst))) // the time that is looked at
	packets, size := f.air.between(began, began.Add(atFirst))
	f.t.Logf("%d hosts: %d multicast packets (%d KiB) in the first %v", len(f.names), packets, size>>10, atFirst)
	if limit := firstPackets * len(f.names); packets > limit {
		f.t.Errorf("got %d multicast packets in the first %v, want at most %d", packets, atFirst, limit)
	}
}

// restsFor counts what a network costs in which nothing happens.
func (f *field) restsFor(span time.Duration) {
	f.t.Helper()
	from := time.Now()
	time.Sleep(span)
	packets, size := f.air.between(from, from.Add(span))
	rate := float64(packets) / span.Seconds()
	f.t.Logf("%d hosts at rest: %.1f multicast packets/s (%.1f KiB/s) in %v", len(f.names), rate, float64(size)/1024/span.Seconds(), span)
	if limit := restingRate * float64(len(f.names)); rate > limit {
		f.t.Errorf("got %.1f multicast packets/s at rest, want at most %.0f", rate, limit)
	}
}

// outage is what a switch can do to its hosts.
type outage struct {
	what string
	set  func(f *field, host string, in bool) error
}

var (
	cutting = outage{"all cut", func(f *field, host string, in bool) error {
		return f.lab.Change(host, map[bool]string{true: "up", false: "cut"}[in])
	}}
	unplugging = outage{"all without carrier", func(f *field, host string, in bool) error {
		return f.lab.Plug(host, map[bool]hosts.Cable{true: hosts.Plugged, false: hosts.Pulled}[in])
	}}
)

// returnsWithoutAStorm takes the network away from all hosts at once and gives it
// back.
func (f *field) returnsWithoutAStorm(o outage) {
	f.t.Helper()
	const gone, window = 10 * time.Second, atFirst
	for _, in := range []bool{false, true} {
		for _, host := range f.names {
			if err := o.set(f, host, in); err != nil {
				f.t.Fatal(err)
			}
		}
		if !in {
			time.Sleep(gone) // the length of the outage is what is tried
		}
	}
	back := time.Now()
	time.Sleep(window) // the time that is looked at
	packets, _ := f.air.between(back, back.Add(window))
	f.t.Logf("%d hosts, %s for %v: %d multicast packets in the %v after it, at most %d in a second",
		len(f.names), o.what, gone, packets, window, f.air.peak(back, back.Add(window)))
	if limit := firstPackets * len(f.names); packets > limit {
		f.t.Errorf("%s: got %d multicast packets in the %v after it, want at most %d", o.what, packets, window, limit)
	}
	f.allKnow(f.names, met)
}

// goodbyeIsHeard has the last host leave.
func (f *field) goodbyeIsHeard() {
	f.t.Helper()
	for try := range tries {
		last := len(f.names) - 1
		leaving, staying := f.names[last], f.names[:last]
		f.daemons[leaving].leave()
		took := f.allKnow(staying, 10*time.Second)
		f.t.Logf("%s has left and was gone everywhere %v later", leaving, took)
		if took <= byeWithin {
			f.names = staying
			return
		}
		if try == tries-1 {
			f.t.Errorf("got a host that has left gone after %v, want at most %v", took, byeWithin)
		}
		f.daemons[leaving] = f.run(leaving)
		f.allKnow(f.names, met)
	}
}

func (f *field) killedHostExpires() {
	f.t.Helper()
	last := len(f.names) - 1
	killed, staying := f.names[last], f.names[:last]
	f.daemons[killed].kill()
	took := f.allKnow(staying, announcedLife+10*time.Second)
	f.t.Logf("%s was killed and gone everywhere %v later, life %v", killed, took, announcedLife)
	if took > announcedLife+time.Second {
		f.t.Errorf("got a killed host gone after %v, want at most its life of %v", took, announcedLife)
	}
	f.names = staying
}

// peers are the hosts that a daemon knows, without those that it misses.
func (f *field) peers(host string) (names []string, err error) {
	var got struct {
		Peers []struct{ Host, State string }
	}
	err = f.api(host, "/v1/status", &got)
	for _, p := range got.Peers {
		if p.State != "missed" {
			names = append(names, p.Host)
		}
	}
	slices.Sort(names)
	return names, err
}

// allKnow waits until every host that is there lists just the others, and
// returns how long that took.
func (f *field) allKnow(there []string, limit time.Duration) time.Duration {
	f.t.Helper()
	begin := time.Now()
	for _, host := range there {
		want := slices.DeleteFunc(slices.Clone(there), func(other string) bool { return other == host })
		await(f.t, max(0, limit-time.Since(begin)), func() error {
			got, err := f.peers(host)
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("%s knows %d hosts: got %v, want %d", host, len(got), got, len(want))
			}
			return err
		})
	}
	return time.Since(begin)
}
