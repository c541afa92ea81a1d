package foxglove

import (
	"sync"
	"time"
)

// feed supplies the messages of one topic.
type feed interface {
	// next returns the message that a viewer gets next after message number last, which is 0 before the first. It returns
	// false if there is none yet. It may be called from any goroutine.
	next(last uint64) (message, bool)
	// add makes the feed offer its messages to a slot of a viewer, until remove.
	add(s *slot, v *viewer)
	// remove ends the offers to a slot, and returns the number of slots that are left.
	remove(s *slot) (left int)
	// problem returns why the feed has no newer message although there is a newer frame, "" if there is no reason.
	problem() string
}

// message is the content of one message, which is not changed any more.
type message struct {
	number  uint64
	at      time.Time // when the frame was captured
	data    []byte
	hasNext bool // a message with a higher number exists already
}

// subscribers are the slots to which a feed offers its messages. They are safe for concurrent use.
type subscribers struct {
	subsMu sync.Mutex // guards subs
	subs   map[*slot]*viewer
}

func (l *subscribers) add(s *slot, v *viewer) {
	l.subsMu.Lock()
	if l.subs == nil {
		l.subs = map[*slot]*viewer{}
	}
	l.subs[s] = v
	l.subsMu.Unlock()
	v.offer(s)
}

func (l *subscribers) remove(s *slot) (left int) {
	l.subsMu.Lock()
	defer l.subsMu.Unlock()
	delete(l.subs, s)
	return len(l.subs)
}

// offer queues a newer message for all viewers. It does not wait for a viewer. Each viewer gets the message that is the newest
// when it is sent, so a further offer within rest, the least time between two messages of a viewer, would change nothing.
func (l *subscribers) offer() (rest time.Duration) {
	l.subsMu.Lock()
	defer l.subsMu.Unlock()
	for s, v := range l.subs {
		v.offer(s)
		if rest == 0 || v.options.period < rest {
			rest = v.options.period
		}
	}
	return rest
}
