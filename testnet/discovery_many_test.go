package testnet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
)

// Limits for discovery on a network of twenty hosts with fifty channels each. On
// smaller networks each host has the same share of the packets.
const (
	foundWithin  = 2 * time.Second // after the last daemon has started
	byeWithin    = time.Second
	atFirst      = 5 * time.Second
	firstPackets = 3000 / 20 // packets of each host
	restingRate  = 20.0 / 20 // packets a second of each host
	lsWithin     = 2500 * time.Millisecond
)

// tries is how often a step is repeated that a busy machine may have delayed.
const tries = 3

func TestManyHostsFindOneAnother(t *testing.T) {
	need.Long(t)
	f := newManyHosts(t, 20)
	f.checkFindOneAnother()
	f.checkLs()
	time.Sleep(15 * time.Second) // until queries are rare
	f.checkIdleTraffic(20 * time.Second)
	for _, way := range []outage{cutting, unplugging} {
		f.checkReturnAfter(way)
	}
	f.checkGoodbye()
}

// A single host sends the most queries, since no other host sends any.
func TestMulticastTrafficOfSingleHost(t *testing.T) {
	need.Long(t)
	t.Parallel()
	f := newManyHosts(t, 1)
	f.checkFindOneAnother()
	time.Sleep(15 * time.Second)
	f.checkIdleTraffic(20 * time.Second)
}

// within repeats a step that a busy machine may have delayed until it takes no longer than most.
func (f *manyHosts) within(most time.Duration, what string, try func() time.Duration) {
	f.t.Helper()
	var took time.Duration
	for range tries {
		if took = try(); took <= most {
			return
		}
	}
	f.t.Errorf("%s took %v, want at most %v", what, took, most)
}

// reader returns the host that links to all others, since it mirrors a channel of each.
func (f *manyHosts) reader() string { return f.names[0] }

// checkFindOneAnother starts all daemons and checks that they find each other in time.
func (f *manyHosts) checkFindOneAnother() {
	f.t.Helper()
	var began time.Time
	f.within(foundWithin, "finding all others", func() time.Duration {
		for _, d := range f.daemons {
			d.terminate()
		}
		var up time.Time
		began, up = f.startAll(map[string][]string{f.reader(): {"--mirror", "*/" + channelName(0)}})
		found := f.waitUntilAllKnow(f.names)
		f.t.Logf("%d hosts: all up %v after the first was started, all found by all %v later", len(f.names), up.Sub(began), found)
		return found
	})
	time.Sleep(time.Until(began.Add(atFirst))) // the time that is looked at
	packets, size := f.air.between(began, began.Add(atFirst))
	f.t.Logf("%d hosts: %d multicast packets (%d KiB) in the first %v", len(f.names), packets, size>>10, atFirst)
	if limit := firstPackets * len(f.names); packets > limit {
		f.t.Errorf("got %d multicast packets in the first %v, want at most %d", packets, atFirst, limit)
	}
}

// checkLs runs ls with filters on hosts with a daemon that is linked to all or none,
// and on one without a daemon, where ls reports what it cannot see.
func (f *manyHosts) checkLs() {
	f.t.Helper()
	await.NoError(f.t, func() error { // the reader is linked to all hosts and knows more channels than announcements hold
		var list []listed
		err := f.get(f.reader(), "/v1/channels", &list)
		if want := (len(f.names) - 1) * channelsEach; err == nil && len(list) != want {
			err = fmt.Errorf("%s lists %d channels, want %d", f.reader(), len(list), want)
		}
		return err
	})
	host, unlinked, others := f.names[len(f.names)-1], f.names[1], len(f.names)-1
	for _, c := range []struct {
		on, pattern string
		want        int
	}{
		{f.reader(), "*/" + channelName(channelsEach-1), others},
		{f.reader(), "*/*", others * channelsEach},
		{unlinked, host + "/" + channelName(channelsEach-1), 1}, // its daemon has no mirror requests
		{unlinked, "*/*", others * channelsEach},
		{visitor, host + "/" + channelName(0), 1},
		{visitor, "*/" + channelName(0), others + 1},
	} {
		f.within(lsWithin, "ls "+c.pattern+" on "+c.on, func() time.Duration {
			begin := time.Now()
			list, _ := f.ls(c.on, c.pattern)
			took := time.Since(begin)
			f.t.Logf("ls '%s' on %s: %d channels after %v", c.pattern, c.on, len(list), took)
			if len(list) != c.want {
				return lsWithin + took
			}
			return took
		})
	}

	stdout, stderr, _ := f.achbridge(visitor, "ls", host)
	seen := strings.Count(stdout, host+"/")
	want := fmt.Sprintf("%s has %d more channels", host, channelsEach-seen)
	if seen == 0 || seen == channelsEach || !strings.Contains(stderr, want) || strings.Count(stderr, "more channels") != 1 {
		f.t.Errorf("without a daemon: got %d channels of %s and %q, want some of %d and just %q", seen, host, stderr, channelsEach, want)
	}
}

// checkIdleTraffic counts the packets on a network without changes.
func (f *manyHosts) checkIdleTraffic(span time.Duration) {
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

// outage is a way in which a switch fails.
type outage struct {
	what string
	set  func(f *manyHosts, host string, in bool) error
}

var (
	cutting = outage{"all cut", func(f *manyHosts, host string, in bool) error {
		return f.lab.Change(host, map[bool]string{true: "up", false: "cut"}[in])
	}}
	unplugging = outage{"all without carrier", func(f *manyHosts, host string, in bool) error {
		return f.lab.Plug(host, map[bool]hosts.Cable{true: hosts.Plugged, false: hosts.Pulled}[in])
	}}
)

// checkReturnAfter disconnects all hosts at once and reconnects them. They must find
// each other without a flood of packets.
func (f *manyHosts) checkReturnAfter(o outage) {
	f.t.Helper()
	const gone, window = 10 * time.Second, atFirst
	for _, in := range []bool{false, true} {
		for _, host := range f.names {
			if err := o.set(f, host, in); err != nil {
				f.t.Fatal(err)
			}
		}
		if !in {
			time.Sleep(gone) // the length of the outage
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
	f.waitUntilAllKnow(f.names)
}

// checkGoodbye stops the last host. The others must receive its goodbye.
func (f *manyHosts) checkGoodbye() {
	f.t.Helper()
	last := len(f.names) - 1
	leaving, staying := f.names[last], f.names[:last]
	f.within(byeWithin, "hearing a goodbye", func() time.Duration {
		f.daemons[leaving].terminate()
		took := f.waitUntilAllKnow(staying)
		f.t.Logf("%s has left and was gone everywhere %v later", leaving, took)
		f.daemons[leaving] = f.run(leaving)
		f.waitUntilAllKnow(f.names)
		return took
	})
}

// peers returns the hosts that a daemon knows and that are up.
func (f *manyHosts) peers(host string) (names []string, err error) {
	var got struct {
		Peers []struct{ Host, State string }
	}
	err = f.get(host, "/v1/status", &got)
	for _, p := range got.Peers {
		if p.State != "missed" {
			names = append(names, p.Host)
		}
	}
	slices.Sort(names)
	return names, err
}

// waitUntilAllKnow waits until each of the hosts lists exactly the others, and returns
// how long that took.
func (f *manyHosts) waitUntilAllKnow(there []string) time.Duration {
	f.t.Helper()
	begin := time.Now()
	for _, host := range there {
		want := slices.DeleteFunc(slices.Clone(there), func(other string) bool { return other == host })
		await.NoError(f.t, func() error {
			got, err := f.peers(host)
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("%s knows %d hosts: got %v, want %d", host, len(got), got, len(want))
			}
			return err
		})
	}
	return time.Since(begin)
}
