package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"achbridge/bridge/transport"
	"achbridge/wire"
)

// Limits of what a peer that holds the key, or many of them, can make a node take.
// Nothing of this is meant to be reached; whatever is refused because of it is in the
// log, at most logBurst lines of a link at once, then one a second.
//
//	what                                           limit             where
//	links                                          128; listed peers and their addresses always
//	                                                                 limits.go
//	handshakes in progress                         128, 16 of one host, from the 8th on the
//	                                               address must be proved
//	                                                                 transport/quic_guard.go
//	time to say Hello                              5 s               node.go
//	control message                                1 MiB, 2048 entries
//	                                                                 wire/message.go
//	control messages taken of a peer               1024 at once, 500 a second; each 4 KiB counts
//	                                               as one more       limits.go
//	control messages that a peer leaves unread     4 MiB             stream.go
//	malformed datagrams of a link                  100               receive.go
//	catalog of a peer                              10000 channels    control.go
//	subscriptions of a peer                        1024, one for each channel
//	                                                                 limits.go, link.go
//	mirrors of one host's channels                 1024              limits.go
//	mirrors of all hosts                           4096              limits.go
//	pushes of a peer                               256               push.go
//	pushes of all peers                            1024              limits.go
//	frame                                          64 MiB, 65536 parts
//	                                                                 wire/frame.go, part.go
//	large frames of a peer under way               256 MiB           space.go
//	memory to unpack a frame                       the frame of the channel and 512 KiB
//	                                                                 unpack.go
//	shared memory of a mirror                      1 GiB             space.go
//	shared memory of all mirrors                   half of what would be free without them
//	                                                                 space.go
//	streams of mode every, of one peer             256               transport/stream.go
//	accounts of what peers read                    10000             exchange.go
//	safe frame of on_stale                         32 KiB            limits.go
const (
	maxLinks         = 128
	maxSubscriptions = 1024 // of a peer to our channels, and mirrors that we have of its channels
	maxMirrors       = 4096
	maxAllPushed     = 1024
	maxSafeFrame     = 32 << 10

	controlBurst  = 1024
	controlPeriod = 2 * time.Millisecond
	controlUnit   = 4 << 10 // bytes

	logBurst  = 20
	logPeriod = time.Second
)

// allowance lets something happen burst times at once, and then once in every. The
// zero value of free is a full one.
type allowance struct {
	burst int
	every time.Duration
	free  time.Duration // when it is full again
}

// use takes n and returns how long the taker has to wait for them.
func (a *allowance) use(now time.Duration, n int) (wait time.Duration) {
	a.free = max(a.free, now) + time.Duration(n)*a.every
	return max(0, a.free-now-time.Duration(a.burst)*a.every)
}

// take takes one if it is there now.
func (a *allowance) take(now time.Duration) bool {
	if max(a.free, now)+a.every-now > time.Duration(a.burst)*a.every {
		return false
	}
	a.use(now, 1)
	return true
}

// complaints are the lines that a link brings into the log. They belong to the
// node's goroutine.
type complaints struct {
	allowance
	left int // lines left out since the last one
}

// warn tells what the peer of l has brought about.
func (l *link) warn(message string, e Event, args ...any) {
	if l.gripes.burst == 0 {
		l.gripes.allowance = allowance{burst: logBurst, every: logPeriod}
	}
	if !l.gripes.take(l.n.now()) {
		l.gripes.left++
		return
	}
	if l.gripes.left > 0 {
		args = append(args, "left_out", l.gripes.left)
		l.gripes.left = 0
	}
	e.Host = l.host
	l.n.events.tell(slog.LevelWarn, message, e, args...)
}

// refusal tells that something of the peer of l, or for it, was refused; why is in
// the text of e.
func (l *link) refusal(message string, e Event) {
	e.Kind = Refused
	l.warn(message, e, "cause", e.Text)
}

var errTooManyLinks = errors.New("too many links")

// crowded reports that there is no room for the link that s would become. Peers that
// the operator has listed always find room.
func (n *Node) crowded(s *transport.Session) bool {
	if len(n.links) < maxLinks {
		return false
	}
	for _, p := range n.peers {
		if p.Static && p.isAt(s) {
			return false
		}
	}
	return true
}

// turnAway ends a session for which there is no room.
func (n *Node) turnAway(s *transport.Session) {
	n.turned++
	if n.newcomers.take(n.now()) {
		n.events.tell(slog.LevelWarn, "session refused: too many links",
			Event{Kind: Refused, Host: s.Peer().Host, Text: "session: too many links", Count: n.turned}, "addr", s.RemoteAddr().String(), "count", n.turned)
		n.turned = 0
	}
	n.work.Go(func() { s.Close(fmt.Sprintf("%s has %d links already; list this peer there", n.cfg.Host, maxLinks)) })
}

// roomForMirror says why there can be no further mirror of a channel of l's peer, ""
// if there can.
func (n *Node) roomForMirror(l *link) string {
	switch {
	case n.mirrorsOf[l.host] >= maxSubscriptions:
		return fmt.Sprintf("%d of its channels are mirrored already", maxSubscriptions)
	case len(n.mirrors) >= maxMirrors:
		return fmt.Sprintf("there are %d mirrors already", maxMirrors)
	}
	return ""
}

// mayRead reports whether the peer may have the subscription that it asks for beside
// those that it has. One to the same channel takes the place of the former.
func (l *link) mayRead(m wire.Subscribe) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	same := func(e *export) bool { return e.channel == m.Channel || e.id == m.ID }
	return len(l.order) < maxSubscriptions || slices.ContainsFunc(l.order, same)
}

// mirrored are the hosts and channels of which there is a mirror: of a peer whose
// channels have no room, no others are looked at.
func (n *Node) mirrored() map[[2]string]bool {
	list := make(map[[2]string]bool, len(n.mirrors))
	for _, m := range n.mirrors {
		list[[2]string{m.host, m.channel}] = true
	}
	return list
}

// restShare is how much longer than it took the node rests after it has made what
// runs agree with what is wanted, so that no peer's catalogs take it a whole processor.
const restShare = 4

// rest is the pause after something that took a while.
func rest(took time.Duration) time.Duration { return restShare * took }
