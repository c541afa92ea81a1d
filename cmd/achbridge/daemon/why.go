package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
	"achbridge/discovery"
	"achbridge/localach"
)

// why diagnoses one channel, or this host and all its peers if the query names no channel.
func (d *Daemon) why(ctx context.Context, query url.Values) (any, error) {
	if query.Get("of") == "" {
		return d.whyAll(ctx, query)
	}
	return d.whyOne(ctx, query)
}

// whyOne diagnoses why a channel is late or missing. The query gives HOST/CHANNEL, the name of
// a mirror, or a channel of this host. whyOne observes the node for the window of the query.
func (d *Daemon) whyOne(ctx context.Context, query url.Values) (r api.WhyReport, err error) {
	window, err := windowOf(query, api.WhyWindow.String())
	if err != nil {
		return r, err
	}
	s, err := d.snapshot(ctx, query.Get("of"), window)
	if err != nil {
		return r, err
	}
	return whyReport(s), ctx.Err()
}

// snapshot collects the facts about a channel: HOST/CHANNEL, the name of a mirror, or a channel of this host. It observes
// the node for window.
func (d *Daemon) snapshot(ctx context.Context, of string, window time.Duration) (s diagnose.Snapshot, err error) {
	s.Before = d.node.Status()
	begin := time.Now()
	host, channel, name, err := channelOf(of, s.Before, d.self.Host)
	if err != nil {
		return s, badRequest{err}
	}
	s.Host, s.Channel, s.Self = host, channel, host == d.self.Host
	var beside sync.WaitGroup
	beside.Go(func() { s.Around = d.surroundings(ctx, s.Host) })
	beside.Go(func() { _, _ = d.node.Layout(ctx, host+"/"+channel) }) // loads the layout, so that the size of frames can be checked
	if report, err := d.node.Age(ctx, name, window); err == nil {
		s.Age = report.Window
	} else {
		api.Rest(ctx, window)
	}
	beside.Wait()
	s.After, s.Apart = d.node.Status(), time.Since(begin)
	if e, err := d.config().Explain(s.Name(), d.node.MirrorRequest); err == nil {
		s.Rules = e.Judgements
	}
	s.File, s.Load = d.fileFacts(name), loadText()
	d.askOrigin(ctx, &s)
	if _, known := diagnose.LocalOf(s.After, s.Channel); s.Self && !known && !s.File.There && len(s.Pushes()) == 0 {
		return s, fmt.Errorf("no channel or mirror is called %q here: want HOST/CHANNEL, as in krang/imu, or a name that achbridge status shows%.0w",
			of, fs.ErrNotExist)
	}
	return s, nil
}

// whyReport diagnoses the channel of a snapshot.
func whyReport(s diagnose.Snapshot) api.WhyReport {
	list := diagnose.Findings(s)
	r := api.WhyReport{Of: s.Name(), Health: diagnose.HealthOf(s), Finding: list[0], Notes: list[1:], WindowS: s.Apart.Seconds()}
	if !s.Self {
		m, _ := diagnose.MirrorOf(s.After, s.Host, s.Channel)
		r.Mirror, r.Unauthenticated = m.Name, m.Unauthenticated
	}
	return r
}

// windowOf returns the measuring window of a query; usual is the default.
func windowOf(query url.Values, usual string) (time.Duration, error) {
	window, err := time.ParseDuration(cmp.Or(query.Get("window"), usual))
	if err == nil {
		err = api.CheckWindow("window", window)
	}
	if err != nil {
		return 0, badRequest{err}
	}
	return window, nil
}

// channelOf resolves HOST/CHANNEL, the name of a mirror, or a channel of this host. name is the
// channel's name on this host, "" if it has none.
func channelOf(of string, now status.Report, self string) (host, channel, name string, err error) {
	named := slices.IndexFunc(now.Mirrors, func(m status.Mirror) bool { return m.Name == of })
	switch {
	case named >= 0: // the name of a mirror of a merge has a slash
		host, channel = now.Mirrors[named].Host, now.Mirrors[named].Channel
	case strings.Contains(of, "/"):
		at, bad := rule.ParseChannel(of)
		if host, channel = at.Host, at.Channel; bad != nil {
			host = ""
		}
	default:
		host, channel = self, of
	}
	if host == "" || localach.CheckName(channel) != nil {
		return "", "", "", fmt.Errorf("%q: want HOST/CHANNEL, as in krang/imu, the name of a mirror, or of a channel of this host", of)
	}
	if host == self {
		return host, channel, channel, nil
	}
	m, _ := diagnose.MirrorOf(now, host, channel)
	return host, channel, m.Name, nil
}

// askOrigin collects the channels that the origin offers. If it does not offer the channel,
// askOrigin asks the origin for the reason.
func (d *Daemon) askOrigin(ctx context.Context, s *diagnose.Snapshot) {
	for _, c := range d.node.Channels() {
		if c.Host == s.Host && !c.Closed {
			s.Offers = append(s.Offers, c.Channel)
		}
	}
	if !s.Self && !slices.Contains(s.Offers, s.Channel) {
		s.OriginReason.Cause, s.OriginReason.Text = d.node.Ask(ctx, s.Host, s.Channel)
	}
}

// surroundings collects what discovery, the hub and the network show about a host without a link.
func (d *Daemon) surroundings(ctx context.Context, host string) diagnose.Surroundings {
	a := d.knownAbout(host)
	if host == d.self.Host || rule.IsAchd(host) {
		return a
	}
	s := d.node.StatusNow()
	_, known := diagnose.LinkOf(s, host)
	known = known || slices.ContainsFunc(s.Peers, func(p status.Peer) bool { return p.Host == host })
	if known || !a.Discovery || a.OtherNetwork != "" || a.Far != "" {
		return a
	}
	a.Searched, a.Multicast = true, multicastProblems(ctx, d.config().Interfaces, d.announcer.memberships())
	if len(a.Multicast) == 0 {
		a.Answers = answersAt(ctx, host)
	}
	return a
}

// knownAbout returns what the daemon knows about a host without asking the network.
func (d *Daemon) knownAbout(host string) (a diagnose.Surroundings) {
	key := d.trust.held()
	a.Network = key.Network()
	if ends := key.Ends(); !ends.IsZero() && time.Now().After(ends) {
		a.Ended = ui.Day(ends)
	}
	a.Revoked = d.endpoint.Revocations().Has(key.Serial())
	a.Hub = hubProblem(d.hubReport())
	a.Discovery = bool(d.config().Discovery)
	if host == d.self.Host || rule.IsAchd(host) {
		return a
	}
	for _, p := range d.members() {
		a.Seen = append(a.Seen, p.Host)
		if text, fix, ok := config.FarText(p); ok && p.Host == host {
			a.Far, a.FarFix = text, fix
		}
	}
	slices.Sort(a.Seen)
	for _, p := range d.others() {
		if p.Host == host {
			a.OtherNetwork = p.Network
		}
	}
	return a
}

// others returns the hosts of other networks that discovery knows of.
func (d *Daemon) others() []discovery.Peer {
	d.network.mu.Lock()
	defer d.network.mu.Unlock()
	return UnknownPeers(d.network.peers, d.membership())
}

// multicastProblems returns a text for each interface on which the daemon does not receive multicast. daemons are its memberships. If it
// receives multicast on all of them, multicastProblems probes the interfaces, and returns their errors if multicast works on none. The
// memberships come first since the kernel may allow a probe to join a group that it did not allow the daemon to join.
func multicastProblems(ctx context.Context, interfaces []string, daemons []discovery.Probe) (list []string) {
	for _, m := range daemons {
		if m.Err != nil {
			m.Err = fmt.Errorf("the daemon does not receive multicast: %w", m.Err)
			list = append(list, config.ProbeText(m))
		}
	}
	if len(list) > 0 {
		return list
	}
	probes, err := discovery.ProbeMulticast(ctx, interfaces)
	if err != nil {
		return []string{err.Error()}
	}
	for _, p := range probes {
		if p.Err == nil {
			return nil
		}
		list = append(list, config.ProbeText(p))
	}
	return list
}

// answersFor limits the wait for an answer from a host that multicast did not find.
const answersFor = 500 * time.Millisecond

// answersAt resolves a host name, and returns the address at which a QUIC server answers on the
// default port, or "" if none does.
func answersAt(ctx context.Context, host string) string {
	ctx, cancel := context.WithTimeout(ctx, answersFor)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return ""
	}
	list := make([]string, len(addrs))
	for i, ip := range addrs {
		list[i] = net.JoinHostPort(ip.String(), strconv.Itoa(discovery.DefaultPort))
	}
	return firstAnswering(ctx, list)
}

// firstAnswering probes all addresses of list at once, and returns the first that answers, or "".
func firstAnswering(ctx context.Context, list []string) string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan string, len(list))
	for _, at := range list {
		go func() {
			if !quicAnswers(ctx, at) {
				at = ""
			}
			answers <- at
		}()
	}
	for range list {
		if at := <-answers; at != "" {
			return at
		}
	}
	return ""
}

// quicAnswers reports whether a QUIC server answers at an address. It sends a packet of a reserved
// version, to which any QUIC server replies with a Version Negotiation packet (RFC 9000, section 6).
func quicAnswers(ctx context.Context, at string) bool {
	conn, err := net.Dial("udp", at)
	if err != nil {
		return false
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	const longHeader, idBytes, packetBytes = 0xc0, 8, 1200
	packet := make([]byte, packetBytes)
	packet[0] = longHeader
	copy(packet[1:], []byte{0x1a, 0x2a, 0x3a, 0x4a}) // a version reserved for forcing version negotiation: section 15
	packet[5] = idBytes
	copy(packet[6:], "achprobe")
	packet[6+idBytes] = idBytes
	copy(packet[7+idBytes:], "whyprobe")
	if _, err := conn.Write(packet); err != nil {
		return false
	}
	answer := make([]byte, packetBytes)
	n, err := conn.Read(answer)
	return err == nil && n > 6+idBytes && answer[0]&0x80 != 0 && string(answer[1:5]) == "\x00\x00\x00\x00"
}

// fileFacts returns the state of the file of a channel or mirror of this host.
func (d *Daemon) fileFacts(name string) (f diagnose.FileFacts) {
	f.Daemon = ui.UserText(os.Geteuid(), os.Getegid())
	var st unix.Statfs_t
	if unix.Statfs(string(d.dir), &st) == nil {
		f.Free = ui.FreeText(string(d.dir), &st)
	}
	if localach.CheckName(name) != nil {
		return f
	}
	f.Kernel = diagnose.HiddenBy(d.dir.KernelDevice(name))
	info, err := os.Lstat(d.dir.Path(name))
	if err != nil {
		return f
	}
	f.There, f.Mode = true, ui.ModeText(info)
	ch, err := d.dir.TryOpenToRead(name)
	if errors.Is(err, localach.ErrCorrupt) || errors.Is(err, localach.ErrForeign) {
		f.Cause, f.Wrong = mirror.CauseOf(err), err.Error()
	}
	if err == nil {
		_, isMetadata := mirror.MetaOf(name, ch.Tag())
		f.Mirror = ch.Tag() != (localach.Tag{}) && !isMetadata
		if stat, err := ch.Stat(); err == nil && stat.LockOwner != 0 {
			f.Holder = processText(stat.LockOwner)
		}
		ch.Close()
	}
	return f
}

// loadText returns the load average of the last minute, the number of CPUs and the limit of the daemon's control group,
// as text.
func loadText() string {
	text, _ := os.ReadFile("/proc/loadavg")
	minute, _, _ := strings.Cut(string(text), " ")
	if minute == "" {
		return ""
	}
	return fmt.Sprintf("%s on %d CPUs%s", minute, runtime.NumCPU(), quotaText("/"))
}

// quotaText returns how much CPU time the control group of this process allows, as an addition to a sentence; "" without
// a limit. root is / except in tests. See cpu.max in the kernel's cgroup-v2.rst; version 1 has it in cpu.cfs_quota_us.
func quotaText(root string) string {
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // if the file cannot be read, there is no limit
	quota := func(group string, files ...string) string {
		for ; ; group = filepath.Dir(group) { // a limit of a parent holds too
			var all []byte
			for _, f := range files {
				part, _ := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", filepath.Dir(f), group, filepath.Base(f)))
				all = append(all, part...)
			}
			var most, period float64
			if n, _ := fmt.Sscan(string(all), &most, &period); n == 2 && most > 0 && period > 0 {
				return fmt.Sprintf(", of which a CPU quota allows the daemon %.2g (%s of control group %s)", most/period, filepath.Base(files[0]), group)
			}
			if group == "/" || group == "." {
				return ""
			}
		}
	}
	for line := range strings.Lines(string(text)) {
		hierarchy := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(hierarchy) < 3:
		case hierarchy[0] == "0":
			if s := quota(hierarchy[2], "cpu.max"); s != "" {
				return s
			}
		case slices.Contains(strings.Split(hierarchy[1], ","), "cpu"):
			if s := quota(hierarchy[2], hierarchy[1]+"/cpu.cfs_quota_us", hierarchy[1]+"/cpu.cfs_period_us"); s != "" {
				return s
			}
		}
	}
	return ""
}

// processText names the process of a thread.
func processText(thread int) string {
	if name := ui.ProcessName(thread); name != "" {
		return fmt.Sprintf("thread %d (%s)", thread, name)
	}
	return fmt.Sprintf("thread %d, which is not to be seen from here", thread)
}
