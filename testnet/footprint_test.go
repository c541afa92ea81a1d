package testnet_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// footprint is what a daemon holds, and the channels of its host.
type footprint struct {
	goroutines, descriptors int
	resident                int // bytes
	channels                []string
}

// sctpMore is how many goroutines more an SCTP association has than a QUIC connection. A
// busy machine may answer so late over QUIC that a link comes up over SCTP.
const sctpMore = 9

// memorySlack is what the heap may be larger by when nothing leaks: the collector
// lets it double before it looks, and what a fault needed once is kept.
const memorySlack = 32 << 20

// within reports what f has more than before, or otherwise.
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

// peakFootprint is the most that the daemon of a host holds in half a second: a question
// to the network opens sockets for a moment.
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
