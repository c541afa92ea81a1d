package foxglove

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"achbridge/bridge/status"
)

// Names of the topics that are no channels. Names of channels have no slash.
const (
	agesTopic   = "/achbridge/age"
	eventsTopic = "/achbridge/log"
)

// agesSchema describes the messages about ages, in JSON Schema.
const agesSchema = `{"title":"achbridge.Ages","description":"Age of the newest frame of each mirror","type":"object","properties":{"mirrors":{"type":"array","items":{"type":"object","properties":` +
	`{"name":{"type":"string"},"origin":{"type":"string"},"age_ms":{"type":"number"}}}}}}`

// logSchema describes the messages about events, in JSON Schema: Foxglove's schema for log messages, which its log panel shows.
const logSchema = `{"title":"foxglove.Log","type":"object","properties":{"timestamp":{"type":"object","title":"time","properties":{"sec":{"type":"integer"},"nsec":{"type":"integer"}}},` +
	`"level":{"type":"integer"},"message":{"type":"string"},"name":{"type":"string"},"file":{"type":"string"},"line":{"type":"integer"}}}`

// ages is the feed of the ages of all mirrors, once a second.
type ages struct {
	subscribers
	mu   sync.Mutex // guards made
	made message
}

func (a *ages) topic() *topic {
	return &topic{converter: converter{description: description{agesTopic, "json", "achbridge.Ages", agesSchema, "jsonschema"}}, feed: a}
}

// mirrorAge is the age of one mirror; AgeMs is null if it is unknown.
type mirrorAge struct {
	Name   string   `json:"name"`
	Origin string   `json:"origin"`
	AgeMs  *float64 `json:"age_ms"`
}

// set replaces the ages and offers them to the viewers.
func (a *ages) set(channels []Channel) {
	list := []mirrorAge{}
	for _, c := range channels {
		if c.Origin != "" {
			list = append(list, mirrorAge{c.Name, c.Origin, c.AgeMs})
		}
	}
	a.mu.Lock()
	a.made = message{number: a.made.number + 1, at: time.Now(), data: marshal(map[string][]mirrorAge{"mirrors": list})}
	a.mu.Unlock()
	a.offer()
}

func (a *ages) next(last uint64) (message, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.made, a.made.number != last
}

func (a *ages) problem() string { return "" }

// events is the feed of the events of this host. A viewer gets all events that the node still keeps, one after another.
type events struct {
	subscribers
	mu   sync.Mutex // guards list
	list []status.Event
}

func (l *events) topic() *topic {
	return &topic{converter: converter{description: description{eventsTopic, "json", "foxglove.Log", logSchema, "jsonschema"}}, feed: l}
}

// follow takes the node's events until ctx or the node ends.
func (l *events) follow(ctx context.Context, node Node) {
	last := uint64(0)
	for {
		news, err := node.Events(ctx, last)
		if err != nil || ctx.Err() != nil {
			return
		}
		last = news.Events[len(news.Events)-1].Seq
		l.mu.Lock()
		l.list = append(l.list, news.Events...)
		l.list = slices.Clone(l.list[max(0, len(l.list)-status.KeptEvents):])
		l.mu.Unlock()
		l.offer()
	}
}

func (l *events) next(last uint64) (message, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, found := slices.BinarySearchFunc(l.list, last, func(e status.Event, seq uint64) int {
		return int(int64(e.Seq - seq))
	})
	if found {
		i++
	}
	if i == len(l.list) {
		return message{}, false
	}
	e := l.list[i]
	return message{number: e.Seq, at: e.Time, data: logMessage(e), hasNext: i+1 < len(l.list)}, true
}

func (l *events) problem() string { return "" }

// Levels of Foxglove's log messages.
const (
	logInfo    = 2
	logWarning = 3
)

// goodEvents are the kinds of events that need nobody's attention.
var goodEvents = []status.EventKind{
	status.EventLinkUp, status.EventLinkReceives, status.EventMirrorFresh, status.EventMirrorReplaced, status.EventForeignGone,
	status.EventOperator, status.EventMuxChanged, status.EventFrameRestored,
}

// logMessage returns an event as a message of Foxglove's schema for logs.
func logMessage(e status.Event) []byte {
	type timestamp struct {
		Sec  int64 `json:"sec"`
		Nsec int   `json:"nsec"`
	}
	level := logWarning
	if slices.Contains(goodEvents, e.Kind) {
		level = logInfo
	}
	of := e.Mirror
	if of == "" {
		of = strings.Trim(e.Host+"/"+e.Channel, "/")
	}
	return marshal(struct {
		Timestamp timestamp `json:"timestamp"`
		Level     int       `json:"level"`
		Message   string    `json:"message"`
		Name      string    `json:"name"`
		File      string    `json:"file"`
		Line      int       `json:"line"`
	}{timestamp{e.Time.Unix(), e.Time.Nanosecond()}, level, strings.TrimSpace(string(e.Kind) + " " + e.Text), of, "", 0})
}
