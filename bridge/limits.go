package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/logline"
	"achbridge/bridge/mirror"
	"achbridge/bridge/peers"
	"achbridge/bridge/ring"
	"achbridge/bridge/status"
	"achbridge/bridge/transport/session"
	"achbridge/wire"
)

// Limits of what a peer that holds the key, or many of them, can make a node take.
// Nothing of this is meant to be reached; whatever is refused because of it is in the
// log, at most logBurst lines of a link at once, then one a second.
//
//	what                                           limit             where
//	links                                          128; listed peers and their addresses always
//	                                                                 peers/view.go
//	dials to what is only announced                8 at once, then 4 a second, by turns of those
//	                                               who announce it; one address each
//	                                                                 peers/claims.go
//	dials through the hub, which names hosts       16 at once; of a host that never answered ever more
//	                                               seldom            peers/hub.go
//	frames at the hub without its word             2 of a channel    hubway/publisher.go
//	frames from the hub that wait for a key        1 of a channel    hubway/consumer.go
//	handshakes in progress                         128 without a whole ClientHello and 128 with one;
//	                                               a newcomer has the oldest of the largest source
//	                                               make room; 16 more for addresses that are listed
//	                                               or had a session within a day; over QUIC, from
//	                                               the 8th on, the address must be proved
//	                                                                 transport/handshakes.go
//	nodes remembered by what they proved           256, for an hour  peers/proved.go
//	time to say Hello                              5 s               node.go
//	control message                                1 MiB, 2048 entries
//	                                                                 wire/message.go
//	control messages taken of a peer               1024 at once, 500 a second; each 4 KiB counts
//	                                               as one more       limits.go
//	control messages that a peer leaves unread     4 MiB             stream.go
//	malformed datagrams of a link                  100               receive.go
//	catalog of a peer                              10000 channels, and 1024 that a wish names;
//	                                               10000 names of others are remembered
//	                                                                 catalog.go
//	subscriptions of a peer                        1024, one for each channel
//	                                                                 limits.go, link.go
//	connections to hosts with achd alone           one for each mirror and push that a rule or wish
//	                                               names            achd_hosts.go
//	mirrors of one host's channels                 1024, of which patterns leave 64 to what is
//	                                               named exactly     limits.go
//	mirrors of all hosts                           4096, likewise    limits.go
//	pushes of a peer                               256               accept.go
//	pushes of all peers                            1024              limits.go
//	frame                                          64 MiB, 65536 parts
//	                                                                 wire/frame.go, part.go
//	large frames of a peer under way               256 MiB, of which channels above 1 MiB that no
//	                                               wish names leave a quarter
//	                                                                 limits.go
//	memory to unpack a frame                       the frame of the channel and 512 KiB
//	                                                                 ring/decompress.go
//	shared memory of a mirror                      1 GiB             mirror/space.go
//	shared memory of all mirrors                   half of what would be free without them
//	                                                                 mirror/space.go
//	of that, of those above 1 MiB that patterns    half for those of one host, three quarters in
//	or pushes bring                                all            mirror/space.go
//	streams of mode every, of one peer             256               transport/stream.go
//	accounts of what peers read                    10000             exchange.go
//	layouts of a peer's channels                   64 KiB each; 256 are kept of all peers; 8 are
//	                                               asked for at once, then 20 a second
//	                                                                 layouts/requests.go
//	layouts that a peer gets                       1 MiB at once, then 100 KiB a second
//	                                                                 layouts/answers.go
//	local channels                                 40000, and 131072 names are watched; later ones
//	                                               are left out
//	                                                                 locals/table.go, localach/dirwatch.go
//	memory for frames of local channels
//	                                               256 MiB, by whatever they claim; over it
//	                                               the largest are refused
//	                                                                 ring/budget.go
//	safe frame of on_stale                         32 KiB            rule/on_stale.go
//	load tests, whoever asks                       one at a time, 10 s a minute in all, 375 MB each
//	                                                                 loadtest.go
const (
	maxSubscriptions = 1024 // of a peer to our channels, and mirrors that we have of its channels
	maxMirrors       = 4096
	maxAllPushed     = 1024
	maxLocals        = 40_000 // channels of this host

	controlBurst  = 1024
	controlPeriod = 2 * time.Millisecond
	controlUnit   = 4 << 10 // bytes

	logBurst  = 20
	logPeriod = time.Second
)

// errTooMuch marks errors about a limit, which wrap it.
var errTooMuch = errors.New("too much")

// MemoryGoal is from how many bytes on, for debug.SetMemoryLimit, a daemon had better
// collect its garbage more eagerly: twice what the copies of frames may take, and half
// of that for all else. It is no hard limit: a daemon that is killed puts no safe frame.
const MemoryGoal = 3 * ring.DefaultBudget

// warn logs trouble that the peer of l has caused, not too often.
func (l *link) warn(message string, e status.Event, args ...any) {
	e.Host = l.host
	l.warned.limit.warn(message, e, args...)
}

// warner logs trouble that one peer, or the users of this host, have caused, not too often. It belongs to the node's goroutine.
type warner struct {
	events *status.Journal
	now    func() time.Duration
	limit  logline.Limit
}

func (n *Node) newWarner() warner {
	return warner{&n.events, n.now, logline.Limit{Burst: logBurst, Period: logPeriod}}
}

// warn logs a warning and keeps e among the events, unless there were too many.
func (w *warner) warn(message string, e status.Event, args ...any) {
	causes, due := w.limit.Cause(w.now())
	if !due {
		return
	}
	if causes > 1 {
		args = append(args, "left_out", causes-1)
	}
	w.events.Tell(slog.LevelWarn, message, e, args...)
}

// refusal tells that something of the peer of l, or for it, was refused; why is in
// the text of e.
func (l *link) refusal(message string, e status.Event) {
	e.Kind = status.EventRefused
	l.warn(message, e, "cause", e.Text)
}

// turnAway ends a session for which there is no room.
func (n *Node) turnAway(s *session.Session) {
	if count, due := n.newcomers.Cause(n.now()); due {
		n.events.Tell(slog.LevelWarn, "session refused: too many links",
			status.Event{Kind: status.EventRefused, Host: s.Peer().Host, Text: "session: too many links", Count: count}, "addr", s.RemoteAddr().String(), "count", count)
	}
	n.loop.work.Go(func() {
		s.Close(fmt.Sprintf("%s has %d links already; list this peer there", n.cfg.Host, peers.MaxLinks))
	})
}

// mayRead reports whether the peer may have the subscription that it asks for beside
// those that it has. One to the same channel takes the place of the former.
func (l *link) mayRead(m wire.Subscribe) bool {
	same := func(x *export) bool { return x.channel == m.Channel || x.id == m.ID }
	return len(l.exports.order) < maxSubscriptions || slices.ContainsFunc(l.exports.order, same)
}

// maxAssembly bounds the memory in which one peer's large frames are put
// together.
const maxAssembly = 256 << 20

// maxWideAssembly is the part of it for channels above smallMirror that no wish names.
const maxWideAssembly = maxAssembly * 3 / 4

// assembling is how much memory l's subscriptions may need for large frames.
func (l *link) assembling() (bytes int) {
	for _, in := range l.inbound {
		bytes += delivery.AssemblyBytes(mirror.LargestFrame(in.m.origin))
	}
	return bytes
}

// mayAssemble says why there is no memory for large frames of c; host as for space.take.
func (l *link) mayAssemble(c wire.Channel, host string) error {
	most, cure := maxAssembly, "mirror fewer of its channels"
	if host != "" && mirror.LargestFrame(c) > mirror.SmallBytes {
		most, cure = maxWideAssembly, "name the channel in a wish of its own, or "+cure
	}
	sum := l.assembling() + delivery.AssemblyBytes(mirror.LargestFrame(c))
	if sum <= most {
		return nil
	}
	return fmt.Errorf("%s/%s: frames of up to %d KiB, with those of the other mirrors of %s %d MiB, are %w: it may have %d MiB under way; %s",
		l.host, c.Name, mirror.LargestFrame(c)>>10, l.host, sum>>20, errTooMuch, most>>20, cure)
}
