package testnet_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// footprint is the resources of a daemon, and the channels of its host.
type footprint struct {
	goroutines, descriptors int
	resident                int // bytes
	channels                []string
}

// sctpMore is how many goroutines an SCTP association has more than a QUIC connection. On
// a busy machine QUIC may answer so late that a link comes up over SCTP.
const sctpMore = 9

// memorySlack is how much the heap may grow without a leak: it may double before the
// garbage collector runs, and buffers that a fault needed once are kept.
const memorySlack = 32 << 20

// within returns an error if f exceeds before.
func (f footprint) within(before footprint) error {
	switch {
	case f.goroutines > before.goroutines:
		return fmt.Errorf("goroutines: got %d, want at most %d as before", f.goroutines, before.goroutines)
	case f.descriptors > before.descriptors:
		return fmt.Errorf("descriptors: got %d, want at most %d as before", f.descriptors, before.descriptors)
	case f.resident > before.resident+memorySlack:
		return fmt.Errorf("memory: got %d KiB, want about %d as before", f.resident>>10, before.resident>>10)
	case !slices.Equal(f.channels, before.channels):
		return fmt.Errorf("shared memory: got %v, want %v as before", f.channels, before.channels)
	}
	return nil
}

// peakFootprint returns the largest footprint of a host's daemon within half a second,
// since an mDNS query opens sockets for a moment.
func (o *faultTest) peakFootprint(host string) (most footprint) {
	o.t.Helper()
	for range 5 {
		f := o.footprint(host)
		most.goroutines = max(most.goroutines, f.goroutines)
		most.descriptors = max(most.descriptors, f.descriptors)
		most.resident = max(most.resident, f.resident)
		most.channels = f.channels
		time.Sleep(100 * time.Millisecond)
	}
	return most
}

func (o *faultTest) footprint(host string) footprint {
	o.t.Helper()
	pid := o.daemons[host].Process.Pid
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		o.t.Fatalf("daemon of %s: %v", host, err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	var size, resident int
	if err == nil {
		_, err = fmt.Fscan(strings.NewReader(string(text)), &size, &resident)
	}
	if err != nil {
		o.t.Fatalf("daemon of %s: memory: %v", host, err)
	}
	got := o.status(host)
	for _, link := range got.Links {
		if link.Transport == "sctp" {
			got.Goroutines -= sctpMore
		}
	}
	return footprint{
		goroutines: got.Goroutines, descriptors: len(open), resident: resident * os.Getpagesize(),
		channels: o.channels(host),
	}
}
