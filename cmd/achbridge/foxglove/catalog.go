package foxglove

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"achbridge/bridge/layout"
)

// mostTopics limits the topics of a viewer. Further channels, in the order of their names, are not shown.
const mostTopics = 4096

// topic is a topic that is advertised to the viewers that want one encoding. It is immutable. A channel whose layout changes
// gets another one.
type topic struct {
	converter
	channel string // name of the channel that the source reads
	encoded []byte // layout of the channel
	feed    feed   // set if the messages do not come from a channel
}

// catalog has the topics that exist.
type catalog struct {
	own []*topic // topics that are no channels; fixed

	mu        sync.Mutex // held by a refresh; guards the following fields
	topics    map[topicKey]*topic
	waitsFor  map[string]time.Time // channels that are not shown yet because their layout is requested, with the time of the request
	refreshAt time.Time            // time of the next refresh
}

const (
	tickEvery    = 250 * time.Millisecond
	refreshEvery = time.Second
	// layoutTime is how long a new channel is hidden while its layout is requested. Else viewers would get it as bytes first.
	layoutTime = 3 * time.Second
)

// tick calls refresh about once a second, and at each call while a layout is requested.
func (s *Server) tick() {
	s.catalog.mu.Lock()
	isDue := len(s.catalog.waitsFor) > 0 || !time.Now().Before(s.catalog.refreshAt)
	s.catalog.mu.Unlock()
	if isDue {
		s.refresh()
	}
}

type topicKey struct {
	channel  string
	encoding encoding
}

// refresh advertises to all viewers the topics that exist now, and offers them the present ages. It does nothing if there are no
// viewers.
func (s *Server) refresh() {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	s.mu.Lock()
	viewers := slices.Collect(maps.Keys(s.viewers))
	s.mu.Unlock()
	if len(viewers) == 0 {
		s.catalog.topics, s.catalog.waitsFor = nil, nil
		return
	}
	now := time.Now()
	s.catalog.refreshAt = now.Add(refreshEvery)
	channels := s.catalog.shown(s.cfg.Node.Channels(), now)
	slices.SortFunc(channels, func(a, b Channel) int { return strings.Compare(a.Name, b.Name) })
	s.ages.set(channels)
	lists, former := map[encoding][]*topic{}, s.catalog.topics
	s.catalog.topics = map[topicKey]*topic{}
	for _, v := range viewers {
		e := v.options.encoding
		if lists[e] == nil {
			lists[e] = s.catalog.list(channels, e, former)
		}
		v.update(lists[e])
	}
}

// shown returns the channels without new ones whose layout is requested, which are hidden for a while. c.mu must be held.
func (c *catalog) shown(list []Channel, now time.Time) []Channel {
	before := c.waitsFor
	c.waitsFor = map[string]time.Time{}
	isKnown := map[string]bool{}
	for key := range c.topics {
		isKnown[key.channel] = true
	}
	return slices.DeleteFunc(list, func(ch Channel) bool {
		if !ch.IsRequested || isKnown[ch.Name] {
			return false
		}
		since, isWaiting := before[ch.Name]
		if !isWaiting {
			since = now
		}
		if now.Sub(since) >= layoutTime {
			return false
		}
		c.waitsFor[ch.Name] = since
		return true
	})
}

// list returns the topics for an encoding: those of former if they have not changed. c.mu must be held.
func (c *catalog) list(channels []Channel, e encoding, former map[topicKey]*topic) []*topic {
	list := slices.Clone(c.own)
	for _, ch := range channels[:min(len(channels), mostTopics-len(list))] {
		key := topicKey{ch.Name, e}
		t := former[key]
		if t == nil || !ch.IsRequested && !bytes.Equal(t.encoded, ch.Layout) {
			t = newTopic(ch, e)
		}
		c.topics[key] = t
		list = append(list, t)
	}
	return list
}

// newTopic returns the topic of a channel. It has the channel's name, as in a recording. A layout that cannot be used counts as
// none.
func newTopic(ch Channel, e encoding) *topic {
	var l *layout.Layout
	if ch.Layout != nil {
		l, _ = layout.DecodeLayout(ch.Layout)
	}
	return &topic{converter: newConverter(ch.Name, l, e), channel: ch.Name, encoded: ch.Layout}
}
