package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
	"achbridge/discovery"
)

// checkMulticast sends an mDNS query out of each interface. It checks that this host receives the query and that the daemon has joined
// the group there.
func checkMulticast(ctx context.Context, p *patient) result {
	if !p.config.Discovery {
		return result{State: fit, Text: "not used: discovery is off"}
	}
	const list = "list the peers: --peer HOST"
	probes, err := discovery.ProbeMulticast(ctx, p.config.Interfaces)
	if err != nil {
		return result{State: failing, Text: err.Error(), Fix: list + ", or peers in the configuration"}
	}
	var good, bad, fixes []string
	for _, probe := range probes {
		fix := multicastFix(probe.Err)
		if missed := p.unjoined(probe); probe.Err == nil && missed != "" {
			probe.Err, fix = fmt.Errorf("the daemon does not receive multicast: %s", missed), "restart the daemon; its log says more"
		}
		if probe.Err == nil {
			good = append(good, config.ProbeText(probe))
			continue
		}
		bad = append(bad, config.ProbeText(probe))
		if !slices.Contains(fixes, fix) {
			fixes = append(fixes, fix)
		}
	}
	fix := strings.Join(append(fixes, "or "+list), "; ")
	switch {
	case len(good) == 0:
		return result{State: failing, Text: strings.Join(bad, "; "), Fix: fix}
	case len(bad) > 0:
		return result{State: doubt, Text: strings.Join(bad, "; ") + "; works on " + ui.AndList(good), Fix: fix}
	}
	return result{State: fit, Text: "works on " + ui.AndList(good)}
}

// multicastFix returns the fix for the error of a probe.
func multicastFix(err error) string {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return "have the program that keeps UDP port 5353 to itself share it (ss -ulpn shows which): with avahi, disallow-other-stacks=no in /etc/avahi/avahi-daemon.conf"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return "see whether the interface has an address that can be used: ip address show"
	}
	return "let UDP port 5353 to 224.0.0.251 and ff02::fb through the firewall, both ways"
}

// unjoined returns why the daemon has not joined the group that a probe has joined, "" if it has joined or if nothing is known.
func (p *patient) unjoined(probe discovery.Probe) string {
	for _, m := range p.joined {
		if m.Interface == probe.Interface && m.IPv6 == probe.IPv6 {
			return m.Error
		}
	}
	return ""
}

// searchFor is how long doctor waits for other hosts to answer.
const searchFor = 1500 * time.Millisecond

// checkHosts searches for other hosts by multicast.
func checkHosts(ctx context.Context, p *patient) result {
	if !p.config.Discovery {
		return result{State: fit, Text: "not searched: discovery is off"}
	}
	cfg := discovery.Config{Interfaces: p.config.Interfaces}
	network := ""
	if p.daemon != nil {
		cfg.Self.Node, network = p.daemon.Node, p.daemon.Network
	}
	peers, err := discovery.Browse(ctx, cfg, searchFor)
	if err != nil {
		return result{State: doubt, Text: "cannot search: " + err.Error(), Fix: "see multicast"}
	}
	var ours, strange, far, fixes []string
	for _, h := range peers {
		text, fix, isFar := config.FarText(h)
		switch {
		case network != "" && h.Network != "" && h.Network != network:
			strange = append(strange, h.Host+" (network "+h.Network+")")
		case isFar:
			far, fixes = append(far, text), append(fixes, fix)
		default:
			ours = append(ours, h.Host)
		}
	}
	slices.Sort(ours)
	text := "no other host answers"
	if len(ours) > 0 {
		text = "there are " + ui.AndList(ours)
	}
	if len(far) > 0 {
		return result{State: doubt, Text: text + "; " + strings.Join(far, "; "), Fix: strings.Join(fixes, "; ")}
	}
	if len(strange) > 0 {
		return result{State: doubt, Text: text + "; with another key " + ui.AndList(strange), Fix: "for one network copy the key file: achbridge key show says where it is"}
	}
	return result{State: fit, Text: text}
}

// checkPorts checks that the daemon has its ports, or could open them.
func checkPorts(_ context.Context, p *patient) result {
	if p.daemon != nil {
		return result{State: fit, Text: "the daemon listens at " + p.daemon.Listen}
	}
	at, err := p.TryPorts(p.config.Listen, p.config.Transport)
	if err != nil {
		return result{State: failing, Text: err.Error(), Fix: cmp.Or(ui.Fix(err), "another port: --listen :PORT")}
	}
	return result{State: fit, Text: "UDP " + at + " is free"}
}

// wantedBuffer is the size that QUIC wants for its socket's buffers, in bytes.
const wantedBuffer = 7 << 20

// checkBuffers checks how large the buffers of a socket may become.
func checkBuffers(_ context.Context, p *patient) result {
	receive, send, err := socketBuffers()
	if err != nil {
		return result{State: doubt, Text: "cannot read the size of a socket's buffers: " + err.Error(), Fix: "see the limits of this user: ulimit -a"}
	}
	text := fmt.Sprintf("a socket gets %s to receive and %s to send; QUIC wants %s", ui.AboutBytes(receive), ui.AboutBytes(send), ui.AboutBytes(wantedBuffer))
	switch {
	case receive >= wantedBuffer && send >= wantedBuffer:
		return result{State: fit, Text: text}
	case p.credentials().uid == 0:
		return result{State: fit, Text: text + "; root may exceed it"}
	}
	return result{State: doubt, Text: text + ": bursts of large frames may be lost here",
		Fix: fmt.Sprintf("sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d, and a file in /etc/sysctl.d", wantedBuffer, wantedBuffer)}
}

// socketBuffers are the sizes that a user without privileges gets, in bytes.
func socketBuffers() (receive, send int, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(fd)
	sizes := [2]int{}
	for i, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, wantedBuffer); err != nil {
			return 0, 0, err
		}
		n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
		if err != nil {
			return 0, 0, err
		}
		sizes[i] = n / 2 // the kernel doubles the size asked for, to have room for its own data
	}
	return sizes[0], sizes[1], nil
}
