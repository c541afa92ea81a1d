package main

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge"
	"achbridge/discovery"
	"achbridge/localach"
)

// whyReport is what why answers. Lists are never null.
type whyReport struct {
	Of     string `json:"of"`                    // HOST/CHANNEL
	Mirror string `json:"mirrored_as,omitempty"` // here
	finding
	Notes   []finding `json:"notes"` // what is worth knowing beside it
	WindowS float64   `json:"window_s"`
}

// why says what keeps a channel from being fresh: HOST/CHANNEL, the name of a mirror, or
// a channel of this host. It watches for a while.
func (d *running) why(ctx context.Context, query url.Values) (r whyReport, err error) {
	window, err := time.ParseDuration(cmp.Or(query.Get("window"), whyWindow.String()))
	if err == nil {
		err = checkWindow("window", window)
	}
	if err != nil {
		return r, badRequest{err}
	}
	s := snapshot{before: d.node.Status()}
	begin := time.Now()
	name, err := s.resolve(query.Get("of"), d.self.Host)
	if err != nil {
		return r, badRequest{err}
	}
	var beside sync.WaitGroup
	beside.Go(func() { s.around = d.surroundings(ctx, s.host) })
	if report, err := d.node.Age(ctx, name, window); err == nil {
		s.age = report.Window
	} else {
		rest(ctx, window)
	}
	beside.Wait()
	s.after, s.apart = d.node.Status(), time.Since(begin)
	if e, err := d.config().explain(s.name(), d.node.Wish); err == nil {
		s.rules = e.Verdicts
	}
	s.file, s.load = d.fileFacts(name), loadText()
	d.askOrigin(ctx, &s)
	if _, known := localOf(s.after, s.channel); s.self && !known && !s.file.there && len(s.pushes()) == 0 {
		return r, noChannelHere(query.Get("of"))
	}
	list := diagnose(s)
	r = whyReport{Of: s.name(), finding: list[0], Notes: list[1:], WindowS: s.apart.Seconds()}
	if !s.self {
		r.Mirror = name
	}
	return r, ctx.Err()
}

type noChannelHere string

func (n noChannelHere) Error() string {
	return fmt.Sprintf("no channel or mirror is called %q here: want HOST/CHANNEL, as in krang/imu, or a name that achbridge status shows", string(n))
}
func (noChannelHere) Is(target error) bool { return target == fs.ErrNotExist }

// resolve finds out which channel is meant, and returns its name on this host: "" when
// it has none.
func (s *snapshot) resolve(of, self string) (name string, err error) {
	of = strings.TrimPrefix(of, "ach://")
	host, channel, ok := strings.Cut(of, "/")
	if !ok {
		host, channel = self, of
		for _, m := range s.before.Mirrors {
			if m.Name == of {
				host, channel = m.Host, m.Channel
			}
		}
	}
	if host == "" || localach.CheckName(channel) != nil || strings.ContainsAny(host, `*?[\/`) {
		return "", fmt.Errorf("%q: want HOST/CHANNEL, as in krang/imu, the name of a mirror, or of a channel of this host", of)
	}
	s.host, s.channel, s.self = host, channel, host == self
	if s.self {
		return channel, nil
	}
	if m, ok := mirrorOf(s.before, host, channel); ok {
		return m.Name, nil
	}
	return "", nil
}

// askOrigin asks the origin why it does not offer the channel, if it does not.
func (d *running) askOrigin(ctx context.Context, s *snapshot) {
	for _, c := range d.node.Channels() {
		if c.Host == s.host && !c.Closed {
			s.offers = append(s.offers, c.Channel)
		}
	}
	if !s.self && !slices.Contains(s.offers, s.channel) {
		s.told.cause, s.told.text = d.node.Ask(ctx, s.host, s.channel)
	}
}

// surroundings look for a host to which there is no link.
func (d *running) surroundings(ctx context.Context, host string) (a surroundings) {
	key := d.trust.held()
	a.network = key.Network()
	if ends := key.Ends(); !ends.IsZero() && time.Now().After(ends) {
		a.ended = dayOf(ends)
	}
	a.revoked = d.endpoint.Revocations().Has(key.Serial())
	a.discovery = d.config().Discovery != discoveryOff
	if host == d.self.Host {
		return a
	}
	s := d.node.Glance()
	_, known := linkOf(s, host)
	known = known || slices.ContainsFunc(s.Peers, func(p bridge.PeerStatus) bool { return p.Host == host })
	for _, p := range d.members() {
		a.seen = append(a.seen, p.Host)
	}
	slices.Sort(a.seen)
	for _, p := range d.others() {
		if p.Host == host {
			a.stranger = p.Network
		}
	}
	if known || !a.discovery || a.stranger != "" {
		return a
	}
	a.multicast = multicastTroubles(ctx, d.config().Interfaces)
	if len(a.multicast) == 0 {
		a.answers = answersAt(ctx, host)
	}
	return a
}

// others are the hosts of other networks that discovery knows of.
func (d *running) others() []discovery.Peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strangers(d.peers, d.membership())
}

// multicastTroubles say where multicast does not work on this host; none where it does
// on some interface that is no loopback.
func multicastTroubles(ctx context.Context, interfaces []string) (list []string) {
	probes, err := discovery.ProbeMulticast(ctx, interfaces)
	if err != nil {
		return []string{strings.TrimPrefix(err.Error(), "discovery: ")}
	}
	for _, p := range probes {
		if p.Err == nil {
			return nil
		}
		list = append(list, probeText(p))
	}
	return list
}

// answersFor is how long a host may take to answer that was not found by multicast.
const answersFor = 500 * time.Millisecond

// answersAt looks a host up by its name, and returns where a QUIC server answers at the
// usual port; "" when none does.
func answersAt(ctx context.Context, host string) string {
	ctx, cancel := context.WithTimeout(ctx, answersFor)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return ""
	}
	for _, ip := range addrs {
		at := net.JoinHostPort(ip.String(), strconv.Itoa(discovery.DefaultPort))
		if quicAnswers(ctx, at) {
			return at
		}
	}
	return ""
}

// quicAnswers sends a packet of a version that there is not, to which any QUIC server
// answers with those that it has (RFC 9000, section 6).
func quicAnswers(ctx context.Context, at string) bool {
	conn, err := net.Dial("udp", at)
	if err != nil {
		return false
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	const longHeader, idBytes, packetBytes = 0xc0, 8, 1200
	packet := make([]byte, packetBytes)
	packet[0] = longHeader
	copy(packet[1:], []byte{0x1a, 0x2a, 0x3a, 0x4a}) // reserved for this: section 15
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

// fileFacts look at the file of a channel or mirror of this host.
func (d *running) fileFacts(name string) (f fileFacts) {
	f.daemon = userText(os.Geteuid(), os.Getegid())
	var st unix.Statfs_t
	if unix.Statfs(string(d.dir), &st) == nil {
		f.free = freeText(string(d.dir), &st)
	}
	if localach.CheckName(name) != nil {
		return f
	}
	info, err := os.Lstat(d.dir.Path(name))
	if err != nil {
		return f
	}
	f.there, f.mode = true, modeText(info)
	if ch, err := d.dir.TryOpen(name); err == nil {
		_, companion := bridge.MetaOf(name, ch.Tag())
		f.mirror = ch.Tag() != (localach.Tag{}) && !companion
		if stat, err := ch.Stat(); err == nil && stat.LockOwner != 0 {
			f.holder = processText(stat.LockOwner)
		}
		ch.Close()
	}
	return f
}

// loadText is how many threads want a processor, and how many there are.
func loadText() string {
	text, _ := os.ReadFile("/proc/loadavg")
	minute, _, _ := strings.Cut(string(text), " ")
	if minute == "" {
		return ""
	}
	return fmt.Sprintf("%s on %d processors", minute, runtime.NumCPU())
}

// modeText is a file's permission bits and owners.
func modeText(info fs.FileInfo) string {
	text := fmt.Sprintf("mode %04o", info.Mode().Perm())
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		text += ", owner " + userText(int(stat.Uid), int(stat.Gid))
	}
	return text
}

// userText is NAME:GROUP, by numbers where there are no names.
func userText(uid, gid int) string {
	name, group := strconv.Itoa(uid), strconv.Itoa(gid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	if g, err := user.LookupGroupId(group); err == nil {
		group = g.Name
	}
	return name + ":" + group
}

// processName is the name of a process or thread, "" when it is not to be seen.
func processName(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(text))
}

// processText names the process of a thread.
func processText(thread int) string {
	if name := processName(thread); name != "" {
		return fmt.Sprintf("thread %d (%s)", thread, name)
	}
	return fmt.Sprintf("thread %d, which is not to be seen from here", thread)
}

// freeText says how much room a directory has, by its file system.
func freeText(dir string, st *unix.Statfs_t) string {
	return fmt.Sprintf("%s of %s are free in %s", aboutBytes(int(st.Bavail)*int(st.Bsize)), aboutBytes(int(st.Blocks)*int(st.Bsize)), dir)
}
