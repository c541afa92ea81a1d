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

// Limits of the resources that one or many peers with the key can make a node use.
// Normal operation stays far below the limits. Every refusal is logged, for each link at most
// logBurst lines at once, then one a second.
//
//	resource                                       limit             file
//	links                                          128; listed peers and their addresses always
//	                                                                 peers/view.go
//	dials to addresses that are only announced     8 at once, then 4 a second, in turn for each
//	                                               announcing host; one address each
//	                                                                 peers/claims.go
//	dials through the hub, which names hosts       16 at once; less and less often to a host that
//	                                               never answered    peers/hub.go
//	frames at the hub without its acknowledgement  2 of a channel    hubway/publisher.go
//	frames from the hub that wait for a key        1 of a channel    hubway/consumer.go
//	handshakes in progress                         128 without a whole ClientHello and 128 with one;
//	                                               a new one replaces the oldest of the largest
//	                                               source; 16 more for addresses that are listed
//	                                               or had a session within a day; over QUIC, from
//	                                               the 8th on, the address must be proved
//	                                                                 transport/handshakes.go
//	proved names of nodes                          256, for an hour  peers/proved.go
//	time to say Hello                              5 s               node.go
//	control message                                1 MiB, 2048 entries
//	                                                                 wire/message.go
//	control messages read from a peer              1024 at once, 500 a second; each 4 KiB counts
//	                                               as one more       limits.go
//	control messages that a peer leaves unread     4 MiB             stream.go
//	malformed datagrams of a link                  100               send/receive.go
//	catalog of a peer                              10000 channels, and 1024 that a request names;
//	                                               10000 names of omitted ones
//	                                                                 catalog.go
//	subscriptions of a peer                        1024, one for each channel
//	                                                                 limits.go, export.go
//	connections to hosts without achbridge         one for each mirror and push that a rule or
//	                                               request names    requested_mirrors.go
//	mirrors of one host's channels                 1024, of which 64 are reserved for channels that
//	                                               a request names   mirrors.go
//	mirrors of all hosts                           4096, likewise    limits.go
//	pushes of a peer                               256               accept.go
//	pushes of all peers                            1024              limits.go
//	frame                                          64 MiB, 65536 fragments
//	                                                                 wire/frame.go, part.go
//	large frames of a peer in transit              256 MiB; channels above 1 MiB that no request
//	                                               names get three quarters of it
//	                                                                 limits.go
//	memory to decompress a frame                   a frame of the channel and 512 KiB
//	                                                                 ring/decompress.go
//	shared memory of a mirror                      1 GiB             mirror/space.go
//	shared memory of all mirrors                   half of the memory free without them
//	                                                                 mirror/space.go
//	the part of it for mirrors above 1 MiB that    half for those of one host, three quarters in
//	patterns or pushes make                        all            mirror/space.go
//	streams of mode every, of one peer             256               transport/session/parameters.go
//	counters of the channels that peers read       10000             export.go
//	layouts of a peer's channels                   64 KiB each; 256 are kept of all peers; 8
//	                                               requests at once, then 20 a second
//	                                                                 layouts/requests.go
//	layouts sent to a peer                         1 MiB at once, then 100 KiB a second
//	                                                                 layouts/answers.go
//	local channels                                 40000, and 131072 names are watched; later ones
//	                                               are omitted
//	                                                                 locals/table.go, localach/dirwatch.go
//	memory for frames of local channels
//	                                               256 MiB, whatever sizes channels declare; over
//	                                               it the largest are refused
//	                                                                 ring/budget.go
//	operator locks of this host's channels         1024              operator/lock.go
//	puts of a peer into channels of this host      10 at once, then 10 a second
//	                                               edit.go, link.go
//	safe frame of on_stale                         32 KiB            rule/on_stale.go
//	load tests of all peers                        one at a time, 10 s a minute in all, 375 MB each
//	                                                                 loadtest.go
const (
	maxSubscriptions = 1024 // subscriptions of a peer to our channels, and mirrors that we have of its channels
	maxMirrors       = 4096
	maxAllPushed     = 1024
	maxLocals        = 40_000 // channels of this host

	controlBurst  = 1024
	controlPeriod = 2 * time.Millisecond
	controlUnit   = 4 << 10 // bytes

	logBurst  = 20
	logPeriod = time.Second
)

// errTooMuch is wrapped by errors about a limit.
var errTooMuch = errors.New("too much")

// MemoryGoal is a soft limit for debug.SetMemoryLimit, in bytes: twice ring.DefaultBudget for the
// copies of frames, and half of that for everything else. Above it the garbage collector works
// harder. It is not a hard limit, since a killed daemon puts no safe frame.
const MemoryGoal = 3 * ring.DefaultBudget

// warn logs a problem that l's peer has caused. The rate is limited.
func (l *link) warn(message string, e status.Event, args ...any) {
	e.Host = l.host
	l.warned.limit.warn(message, e, args...)
}

// warner logs problems that one peer, or the users of this host, have caused. It limits the rate.
// It belongs to the node's goroutine.
type warner struct {
	events *status.Journal
	now    func() time.Duration
	limit  logline.Limit
}

func (n *Node) newWarner() warner {
	return warner{&n.events, n.now, logline.Limit{Burst: logBurst, Period: logPeriod}}
}

// warn logs a warning and records e as an event, unless the rate limit is reached.
func (w *warner) warn(message string, e status.Event, args ...any) {
	causes, due := w.limit.Cause(w.now())
	if !due {
		return
	}
	if causes > 1 {
		args = append(args, "left_out", causes-1)
	}
	w.events.Record(slog.LevelWarn, message, e, args...)
}

// refusal logs that a request of l's peer, or one for it, was refused. The text of e is the
// reason.
func (l *link) refusal(message string, e status.Event) {
	e.Kind = status.EventRefused
	l.warn(message, e, "cause", e.Text)
}

// turnAway closes a session because the limit of links is reached.
func (n *Node) turnAway(s *session.Session) {
	if count, due := n.linkLimitWarnings.Cause(n.now()); due {
		n.events.Record(slog.LevelWarn, "session refused: too many links",
			status.Event{Kind: status.EventRefused, Host: s.Peer().Host, Text: "session: too many links", Count: count}, "addr", s.RemoteAddr().String(), "count", count)
	}
	n.loop.work.Go(func() {
		s.Close(fmt.Sprintf("%s has %d links already; list this peer there", n.cfg.Host, peers.MaxLinks))
	})
}

// mayRead reports whether the peer may have the subscription that it requests in addition to its
// present ones. A subscription to the same channel replaces the former one.
func (l *link) mayRead(m wire.Subscribe) bool {
	same := func(x *export) bool { return x.channel == m.Channel || x.id == m.ID }
	return len(l.exports.order) < maxSubscriptions || slices.ContainsFunc(l.exports.order, same)
}

// maxReassembly bounds the memory in which one peer's large frames are reassembled, in bytes.
const maxReassembly = 256 << 20

// maxLargeReassembly is the part of maxReassembly for channels above mirror.SmallBytes that no request
// names.
const maxLargeReassembly = maxReassembly * 3 / 4

// assembling returns how many bytes l's subscriptions may need to reassemble large frames.
func (l *link) assembling() (bytes int) {
	for _, in := range l.inbound {
		bytes += delivery.ReassemblerBytes(mirror.LargestFrame(in.m.origin))
	}
	return bytes
}

// mayAssemble returns an error if there is no memory to reassemble large frames of c. host is
// empty if a request of this host names the channel (mirrorRequests.broughtBy).
func (l *link) mayAssemble(c wire.Channel, host string) error {
	most, fix := maxReassembly, "mirror fewer of its channels"
	if host != "" && mirror.LargestFrame(c) > mirror.SmallBytes {
		most, fix = maxLargeReassembly, "name the channel in a rule of its own, or "+fix
	}
	sum := l.assembling() + delivery.ReassemblerBytes(mirror.LargestFrame(c))
	if sum <= most {
		return nil
	}
	return fmt.Errorf("%s/%s: frames of up to %d KiB, with those of the other mirrors of %s %d MiB, are %w: it may have %d MiB under way; %s",
		l.host, c.Name, mirror.LargestFrame(c)>>10, l.host, sum>>20, errTooMuch, most>>20, fix)
}
