package recording

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// Config holds the options of a recording.
type Config struct {
	Dir      localach.Dir
	Patterns []string // valid patterns of channels, as in path.Match; none means all channels
	Host     string   // name of this host
	Files    Files
	// Mirrors returns the daemon's mirrors, with their origins and drops. It may be nil, or
	// return an error, when no daemon runs. It may block until ctx ends.
	Mirrors func(ctx context.Context) ([]status.Mirror, error)
	// Type is the type of a channel's frames, nil when it is not known. channel is HOST/CHANNEL
	// of a mirror where that is known, else the name. It may be nil.
	Type func(channel, name string) (*Type, error)
	// OriginType asks the origin of a mirror for the type of its frames, if Type has none. It may be nil. Many goroutines
	// call it at the same time, and it may take some seconds.
	OriginType func(ctx context.Context, name string) (*Type, error)
	// Watcher notices new frames. Its owner runs it. nil means a watcher of the recording's own.
	Watcher *localach.Watcher
	// Note is called, from one goroutine, with messages for the user; it may be nil.
	Note func(format string, args ...any)
}

// Report is the result of a recording.
type Report struct {
	Files    []Made        `json:"files"`
	Channels int           `json:"channels"`
	Frames   uint64        `json:"frames"`
	Missed   uint64        `json:"missed"`
	Took     time.Duration `json:"-"`
}

// recorder reads the channels in one goroutine and writes the files in another.
type recorder struct {
	Config
	queue    *queue
	watcher  *localach.Watcher
	wake     chan struct{}
	begun    time.Time
	mono     time.Duration // CLOCK_MONOTONIC at begun
	withAges bool          // the ages of mirrors are recorded too
	missed   atomic.Uint64 // frames that were overwritten before they were read

	// The fields below belong to the goroutine that reads.
	streams map[string]*stream
	names   names
	mirrors mirrors
	types   types
	events  chan localach.Event
	report  Report
}

// names holds the state of channels by name. It belongs to the goroutine that reads.
type names struct {
	withFrames map[string]bool
	refusals   map[string]string // why a channel is not recorded
	atStart    map[string]bool   // channels that existed when the recording began
}

// Run records until ctx ends or a file cannot be written. It reads channels as any reader of
// Ach does; no publisher waits for it. The report is valid also together with an error.
func Run(ctx context.Context, cfg Config) (Report, error) {
	r, err := newRecorder(cfg)
	if err != nil {
		return Report{}, err
	}
	some, err := r.checkChannels(ctx)
	if err != nil {
		return Report{}, err
	}
	if !some {
		r.Note("no channel matches yet: recording begins when one appears")
	}
	out := &files{Files: cfg.Files, now: time.Now}
	if err := out.open(); err != nil {
		return Report{}, err
	}
	err = r.run(ctx, out)
	r.report.Files, r.report.Took, r.report.Channels = out.made, time.Since(r.begun), len(r.names.withFrames)
	r.report.Missed = r.missed.Load()
	return r.report, err
}

func newRecorder(cfg Config) (*recorder, error) {
	watcher, err := cfg.Watcher, error(nil)
	if watcher == nil {
		watcher, err = localach.NewWatcher()
	}
	if err != nil {
		return nil, err
	}
	if cfg.Note == nil {
		cfg.Note = func(string, ...any) {}
	}
	r := &recorder{
		Config: cfg, queue: newQueue(), watcher: watcher, wake: make(chan struct{}, 1),
		streams: map[string]*stream{}, events: make(chan localach.Event),
		names: names{withFrames: map[string]bool{}, refusals: map[string]string{}, atStart: map[string]bool{}},
		mirrors: mirrors{
			lastDrops: map[string]map[string]uint64{}, frameCounters: map[string]ledger.FrameCounters{}, origins: map[string]string{}, stamps: map[string]Stamps{},
			drops: map[[2]string]uint64{}, answers: make(chan []status.Mirror),
		},
		types: types{
			byName: map[string]*Type{}, layouts: map[string]string{}, onlyByOrigin: map[string]bool{}, mismatches: map[string]bool{},
			answers: make(chan answer),
		},
	}
	r.begun = time.Now()
	r.mono = status.Monotonic(r.begun)
	return r, nil
}

// checkChannels records which channels exist when the recording begins. some means that one of them will be recorded.
func (r *recorder) checkChannels(ctx context.Context) (some bool, err error) {
	list, err := r.Dir.List()
	if err != nil {
		return false, err
	}
	for _, c := range list {
		r.names.atStart[c.Name] = true
		some = some || r.wanted(c.Name)
	}
	if r.Mirrors == nil {
		return some, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	if list, err := r.Mirrors(ctx); err == nil {
		r.recordDrops(list)
	}
	return some, nil
}

// run works until ctx ends, or the writer fails.
func (r *recorder) run(ctx context.Context, out output) error {
	group, inner := errgroup.WithContext(ctx)
	if r.Watcher == nil {
		group.Go(func() error { return ignore(inner, r.watcher.Run(inner)) })
	}
	group.Go(func() error {
		return ignore(inner, r.Dir.Watch(inner, func(e localach.Event) {
			select {
			case r.events <- e:
			case <-inner.Done():
			}
		}))
	})
	if r.Mirrors != nil {
		group.Go(func() error { r.readMirrors(inner); return nil })
	}
	ended := make(chan struct{})
	group.Go(func() error {
		defer close(ended)
		r.read(inner)
		return nil
	})
	group.Go(func() error { return r.write(out, ended) })
	return group.Wait()
}

// ignore returns nil when ctx has ended, since that is then the reason for err.
func ignore(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

const (
	checkEvery = time.Second // channels are checked, and the ledger read
	busyRetry  = time.Millisecond
	metaPause  = 200 * time.Microsecond
	metaTrials = 5
)

// read copies frames from the rings into the queue until ctx ends.
func (r *recorder) read(ctx context.Context) {
	defer func() {
		for _, s := range r.streams {
			s.close()
		}
		r.types.asks.Wait()
	}()
	r.types.ask = r.typeRequester(ctx)
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	for ctx.Err() == nil {
		select {
		case <-r.wake:
		case <-r.queue.hasRoom:
		case <-retry.C:
		case e := <-r.events:
			r.changed(e)
		case a := <-r.types.answers:
			r.answered(a)
		case list := <-r.mirrors.answers:
			r.recordDrops(list)
		case <-tick.C:
			r.check()
		case <-ctx.Done():
		}
		if r.drain() {
			retry.Reset(busyRetry)
		}
	}
	for _, s := range r.streams {
		s.awaitsType = false
		s.due.Store(true)
	}
	r.drain()
}

// drain reads the channels that have new frames. busy means that a channel was locked and
// must be tried again. Frames without room in the queue wait for the writer.
func (r *recorder) drain() (busy bool) {
	for _, s := range r.streams {
		if s.awaitsType || !s.due.Swap(false) {
			continue
		}
		switch err := r.drainOne(s); {
		case errors.Is(err, os.ErrDeadlineExceeded): // there is nothing to read
		case errors.Is(err, errFull):
			s.due.Store(true)
		case errors.Is(err, localach.ErrBusy):
			s.due.Store(true)
			busy = true
		default:
			r.end(s, err)
		}
	}
	return busy
}

var errFull = errors.New("too much waits to be written")

func (r *recorder) drainOne(s *stream) error {
	for {
		if r.queue.isFull(len(s.buf)) {
			return errFull
		}
		frame, missed, err := s.next()
		if err != nil {
			return err
		}
		now := r.now()
		if missed > 0 {
			r.missed.Add(missed)
			r.drop(now, s.topic.Channel, "missed", missed)
		}
		r.names.withFrames[s.topic.Channel] = true
		r.report.Frames++
		seq := s.r.Seq()
		r.queue.add(item{topic: r.topicFor(s, frame), seq: seq, log: now, publish: r.published(s, seq, now)}, frame)
	}
}

// now returns the current log time.
func (r *recorder) now() int64 { return r.begun.UnixNano() + int64(time.Since(r.begun)) }

// published returns the capture time of frame seq, or now if the metadata channel does not have
// it. The daemon writes the metadata channel right after it puts a frame.
func (r *recorder) published(s *stream, seq uint64, now int64) int64 {
	for range metaTrials {
		at, pending := s.meta.captured(seq)
		if at != 0 {
			return min(now, r.begun.UnixNano()+int64(at-r.mono))
		}
		if !pending {
			break
		}
		time.Sleep(metaPause)
	}
	return now
}

func (r *recorder) drop(now int64, channel, cause string, count uint64) {
	key := [2]string{channel, cause}
	r.mirrors.drops[key] += count
	r.text(dropsTopic, now, Drop{channel, cause, count, r.mirrors.drops[key]})
}

// text adds a text of a topic of our own.
func (r *recorder) text(t *ownTopic, now int64, value any) {
	text, _ := json.Marshal(value) // fails only for types that JSON cannot express
	r.queue.add(item{own: t, log: now, publish: now}, text)
}
