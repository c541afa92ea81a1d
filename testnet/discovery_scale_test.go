package testnet_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"achbridge/testnet/hosts"
)

// manyHosts is a site of many similar hosts: host00, host01 ... Each has fifty
// channels and, once started, a daemon.
type manyHosts struct {
	*site
	names   []string
	daemons map[string]*process
	air     *mdnsTraffic
}

// channelsEach is the number of channels of each host.
const channelsEach = 50

// channelName returns a typical name of a robot's channel. Fifty do not fit into an announcement.
func channelName(i int) string { return fmt.Sprintf("left_arm_joint%02d", i) }

// visitor is a host with achbridge and the key, but without a daemon.
const visitor = "visitor"

// newManyHosts starts n hosts with channels, and the visitor without channels. It starts
// no daemon.
func newManyHosts(t *testing.T, n int) *manyHosts {
	t.Helper()
	f := &manyHosts{daemons: map[string]*process{}}
	for i := range n {
		f.names = append(f.names, fmt.Sprintf("host%02d", i))
	}
	f.site = siteOf(t, "delay=1ms", append(slices.Clone(f.names), visitor)...)
	f.air = captureMDNS(f.lab)
	var channels []string
	for i := range channelsEach {
		channels = append(channels, channelName(i)+":0.1:64")
	}
	for _, host := range f.names {
		f.publish(host, channels...)
	}
	return f
}

// startAll starts a daemon on each host, with the arguments in args, and waits until
// all are up.
func (f *manyHosts) startAll(args map[string][]string) (began, up time.Time) {
	f.t.Helper()
	began = time.Now()
	for _, host := range f.names {
		f.daemons[host] = f.run(host, args[host]...)
	}
	for _, host := range f.names {
		f.daemons[host].awaitLog("daemon started")
	}
	return began, time.Now()
}

// mdnsTraffic records the mDNS packets that hosts send, each once.
type mdnsTraffic struct {
	mu   sync.Mutex
	sent []mdnsPacket // sorted by time
}

type mdnsPacket struct {
	at   time.Time
	host string
	size int
}

func captureMDNS(l *hosts.Lab) *mdnsTraffic {
	a := &mdnsTraffic{}
	l.Listen(func(host string, frame []byte) {
		if !isMulticastDNS(frame) {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.sent = append(a.sent, mdnsPacket{time.Now(), host, len(frame)})
	})
	return a
}

// isMulticastDNS reports whether an Ethernet frame is multicast and for UDP port
// 5353.
func isMulticastDNS(frame []byte) bool {
	const header, udp, port = 14, 17, 5353
	if frame[0]&1 == 0 || len(frame) < header+20 {
		return false
	}
	packet := frame[header:]
	var kind byte
	var payload []byte
	switch packet[0] >> 4 {
	case 4:
		kind, payload = packet[9], packet[min(len(packet), int(packet[0]&15)*4):]
	case 6:
		kind, payload = packet[6], packet[min(len(packet), 40):]
	}
	return kind == udp && len(payload) >= 8 && binary.BigEndian.Uint16(payload[2:]) == port
}

// between returns the number of packets between two times, and their bytes.
func (a *mdnsTraffic) between(from, to time.Time) (packets, bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.sent {
		if !p.at.Before(from) && p.at.Before(to) {
			packets++
			bytes += p.size
		}
	}
	return packets, bytes
}

// peak returns the largest number of packets in a second between two times.
func (a *mdnsTraffic) peak(from, to time.Time) (most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var window []time.Time
	for _, p := range a.sent {
		if p.at.Before(from) || !p.at.Before(to) {
			continue
		}
		window = append(window, p.at)
		old := slices.IndexFunc(window, func(t time.Time) bool { return p.at.Sub(t) < time.Second })
		window = window[old:]
		most = max(most, len(window))
	}
	return most
}
