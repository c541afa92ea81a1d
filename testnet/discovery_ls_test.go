package testnet_test

import (
	"fmt"
	"strings"
	"time"
)

// visitor has achbridge and the key, and no daemon.
const visitor = "visitor"

// listsAllChannels waits until the reader, which is linked to all, lists all
// channels of all: more than fit the announcements.
func (f *field) listsAllChannels() {
	f.t.Helper()
	await(f.t, met, func() error {
		var list []listed
		err := f.api(f.reader(), "/v1/channels", &list)
		if want := (len(f.names) - 1) * channelsEach; err == nil && len(list) != want {
			err = fmt.Errorf("%s lists %d channels, want %d", f.reader(), len(list), want)
		}
		return err
	})
}

// lsIsQuickAndHonest asks with filters, on hosts with a daemon, linked to all or
// to none, and on one without. What the last cannot see it says.
func (f *field) lsIsQuickAndHonest() {
	f.t.Helper()
	host := f.names[len(f.names)-1]
	others := len(f.names) - 1
	f.lsFinds(f.reader(), host+"/"+channelName(7), 1)
	f.lsFinds(f.reader(), "*/"+channelName(channelsEach-1), others)
	f.lsFinds(f.reader(), "*/*", others*channelsEach)
	unlinked := f.names[1] // its daemon has no wish
	f.lsFinds(unlinked, host+"/"+channelName(channelsEach-1), 1)
	f.lsFinds(unlinked, "*/*", others*channelsEach)
	f.lsFinds(visitor, host+"/"+channelName(0), 1)
	f.lsFinds(visitor, "*/"+channelName(0), others+1)

	stdout, stderr, _ := f.verb(visitor, "ls", host)
	seen := strings.Count(stdout, host+"/")
	want := fmt.Sprintf("%s has %d more channels", host, channelsEach-seen)
	if seen == 0 || seen == channelsEach || !strings.Contains(stderr, want) || strings.Count(stderr, "more channels") != 1 {
		f.t.Errorf("without a daemon: got %d channels of %s and %q, want some of %d and just %q", seen, host, stderr, channelsEach, want)
	}
}

// lsFinds fails the test if ls three times in a row does not list so many
// channels, or not soon enough.
func (f *field) lsFinds(on, pattern string, want int) {
	f.t.Helper()
	for try := range tries {
		begin := time.Now()
		list, _ := f.ls(on, pattern)
		took := time.Since(begin)
		f.t.Logf("ls '%s' on %s: %d channels after %v", pattern, on, len(list), took)
		if len(list) == want && took <= lsWithin {
			return
		}
		if try == tries-1 {
			f.t.Errorf("ls %s on %s: got %d channels after %v, want %d after at most %v", pattern, on, len(list), took, want, lsWithin)
		}
	}
}
