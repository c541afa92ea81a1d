package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"

	"achbridge/bridge"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/service"
)

// feed sends the daemon's state to browsers, as server-sent events (WHATWG HTML, 9.2).
// Each event is encoded and compressed once for all browsers. A slow browser is
// disconnected and may connect again. The data of an event is one line of JSON:
//
//	ages    map of mirror to ageTrack: first of the last minutes, then each second's
//	status  statusReply, as of status --json; first, then once a second
//	events  []status.Event, oldest first: first those that are kept, then new ones
//
// The first ages event replaces all ages of an earlier connection.
type feed struct {
	overview *overview
	lately   func() []status.AgeLately
	events   func(ctx context.Context, after uint64) (status.EventList, error)

	mu           sync.Mutex
	past         map[string]*ageTrack
	recentEvents []status.Event
	viewers      map[*viewer]bool
	shown        time.Time // creation time of the last status that was sent to all viewers
	welcome      chunk     // first chunk of a new viewer; enter makes it if it is empty
	compressor   *flate.Writer
}

// ageTrack is the age of a mirror over time, with one entry for each second.
type ageTrack struct {
	MeanMs milliList `json:"mean_ms"`
	PeakMs milliList `json:"peak_ms"`
	State  string    `json:"state"` // one letter for each second: live, stale, contested, waiting, refused
}

// milliList is a list of times in ms, printed with three digits or to the µs. NaN means
// unknown and is printed as null.
type milliList []float32

func (l milliList) MarshalJSON() ([]byte, error) {
	text := []byte{'['}
	for i, v := range l {
		if i > 0 {
			text = append(text, ',')
		}
		if v != v {
			text = append(text, "null"...)
			continue
		}
		text = strconv.AppendFloat(text, float64(v), 'f', places(v), 32)
	}
	return append(text, ']'), nil
}

func places(ms float32) int {
	switch {
	case ms < 1:
		return 3
	case ms < 10:
		return 2
	case ms < 100:
		return 1
	}
	return 0
}

const (
	feedEvery  = time.Second
	feedPast   = 180 // seconds of ages that a new viewer gets
	feedTracks = 1000
	feedKept   = 200 // events

	viewerLag   = 4                // queue length of a viewer, in chunks
	viewerWrite = 10 * time.Second // write timeout of one chunk
)

// chunk is a piece of the stream, uncompressed and compressed. packed is a self-contained
// piece of a deflate stream (RFC 1951) that ends at a byte boundary, so chunks can follow
// each other in any combination.
type chunk struct{ plain, compressed []byte }

// gzipHeader precedes the compressed chunks of a stream (RFC 1952). The stream has no trailer.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

func newFeed(o *overview, node *bridge.Node) *feed {
	return &feed{overview: o, lately: node.AgesSinceLast, events: node.Events, past: map[string]*ageTrack{}, viewers: map[*viewer]bool{}}
}

// run feeds the viewers until ctx ends. Without viewers it only stores the ages.
func (f *feed) run(ctx context.Context) {
	var followed sync.WaitGroup
	followed.Go(func() { f.follow(ctx) })
	defer followed.Wait()
	_ = service.Repeat(ctx, feedEvery, func() { f.second(f.lately()) }) // Repeat returns only when ctx ends
}

// second stores one second of ages and sends it to the viewers, with the status if that is new.
func (f *feed) second(list []status.AgeLately) {
	var whole api.StatusReply
	var made time.Time
	if f.watched() {
		whole, made = f.overview.now()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.note(list)
	f.welcome = chunk{}
	if len(f.viewers) == 0 {
		return
	}
	text := message(nil, "ages", now)
	if made.After(f.shown) {
		f.shown = made
		text = message(text, "status", withoutTypes(whole))
	}
	f.send(text)
}

func (f *feed) watched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.viewers) > 0
}

// follow sends events as they occur, until ctx or the node ends.
func (f *feed) follow(ctx context.Context) {
	last := uint64(0)
	for {
		l, err := f.events(ctx, last)
		if err != nil || ctx.Err() != nil {
			return
		}
		last = l.Events[len(l.Events)-1].Seq
		f.happened(l.Events)
		select { // events of this time are sent together
		case <-ctx.Done():
			return
		case <-time.After(feedEvery / 10):
		}
	}
}

func (f *feed) happened(events []status.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recentEvents = append(f.recentEvents, events...)
	f.recentEvents = slices.Clone(f.recentEvents[max(0, len(f.recentEvents)-feedKept):])
	f.welcome = chunk{}
	if len(f.viewers) > 0 {
		f.send(message(nil, "events", events))
	}
}

// note stores one second of ages and removes mirrors that no longer exist. f.mu must be held.
func (f *feed) note(list []status.AgeLately) (now map[string]*ageTrack) {
	now = map[string]*ageTrack{}
	for _, l := range list {
		track := f.past[l.Name]
		if track == nil {
			if len(f.past) >= feedTracks {
				continue
			}
			track = &ageTrack{}
			f.past[l.Name] = track
		}
		mean, peak := float32(l.MeanMs), float32(l.PeakMs)
		if !l.Known {
			mean, peak = float32(math.NaN()), float32(math.NaN())
		}
		now[l.Name] = &ageTrack{milliList{mean}, milliList{peak}, l.State.String()[:1]}
		track.add(now[l.Name])
	}
	for name := range f.past {
		if now[name] == nil {
			delete(f.past, name)
		}
	}
	return now
}

func (a *ageTrack) add(o *ageTrack) {
	drop := max(0, len(a.MeanMs)+1-feedPast)
	a.MeanMs = append(a.MeanMs[drop:], o.MeanMs...)
	a.PeakMs = append(a.PeakMs[drop:], o.PeakMs...)
	a.State = a.State[drop:] + o.State
}

// message appends one server-sent event to text.
func message(text []byte, event string, data any) []byte {
	body, err := json.Marshal(data)
	if err != nil {
		panic(err) // data has one of our own types, which always can be encoded
	}
	return fmt.Appendf(text, "event: %s\ndata: %s\n\n", event, body)
}

// send queues a text for all viewers. It does not block: a viewer whose queue is full is disconnected. f.mu must be held.
func (f *feed) send(text []byte) {
	c := f.compress(text)
	for v := range f.viewers {
		select {
		case v.chunks <- c.of(v):
		default:
			delete(f.viewers, v)
			close(v.chunks)
		}
	}
}

// compress compresses a text. f.mu must be held.
func (f *feed) compress(text []byte) chunk {
	var compressed bytes.Buffer
	if f.compressor == nil {
		f.compressor, _ = flate.NewWriter(&compressed, flate.BestSpeed)
	} else {
		f.compressor.Reset(&compressed)
	}
	_, _ = f.compressor.Write(text) // writes to memory do not fail
	_ = f.compressor.Flush()
	return chunk{text, compressed.Bytes()}
}

func (c chunk) of(v *viewer) []byte {
	if v.isCompressed {
		return c.compressed
	}
	return c.plain
}
