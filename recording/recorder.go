package recording

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/foxglove/mcap/go/mcap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"achbridge/bridge"
	"achbridge/localach"
)

// Config says what to record.
type Config struct {
	Dir      localach.Dir
	Patterns []string // of the channels, as in path.Match; none: all
	Host     string   // name of this host
	Files    Files
	// Mirrors tells of the daemon's mirrors, for where they come from and their drops;
	// nil, or an error: no daemon tells. It may block until ctx ends.
	Mirrors func(ctx context.Context) ([]bridge.MirrorStatus, error)
	// Note is told, from one goroutine, what a person should know; nil: nobody.
	Note func(format string, args ...any)
}

// Report is what a recording came to.
type Report struct {
	Files    []Made        `json:"files"`
	Channels int           `json:"channels"`
	Frames   uint64        `json:"frames"`
	Missed   uint64        `json:"missed"`
	Took     time.Duration `json:"-"`
}

// recorder reads the channels in one goroutine, and writes in another.
type recorder struct {
	Config
	queue   *queue
	watcher *localach.Watcher
	wake    chan struct{}
	begun   time.Time
	mono    time.Duration // CLOCK_MONOTONIC at begun

	// These belong to the goroutine that reads.
	streams map[string]*stream
	seen    map[string]bool // channels that had a frame
	failed  map[string]string
	present map[string]bool              // channels that were there when it began
	fates   map[string]map[string]uint64 // of mirrors, as the ledger told them last
	totals  map[[2]string]uint64         // drops by channel and cause
	origins map[string]string            // of mirrors
	ledger  chan []bridge.MirrorStatus
	events  chan localach.Event
	report  Report
}

// Run records until ctx ends, or something goes wrong with the file. It reads as any
// reader of Ach does, and is never waited for. The report tells what was recorded in
// either case.
func Run(ctx context.Context, cfg Config) (Report, error) {
	for _, p := range cfg.Patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return Report{}, fmt.Errorf("pattern %q: %w", p, path.ErrBadPattern)
		}
	}
	watcher, err := localach.NewWatcher()
	if err != nil {
		return Report{}, err
	}
	if cfg.Note == nil {
		cfg.Note = func(string, ...any) {}
	}
	r := &recorder{
		Config: cfg, queue: newQueue(), watcher: watcher, wake: make(chan struct{}, 1),
		streams: map[string]*stream{}, seen: map[string]bool{}, failed: map[string]string{}, fates: map[string]map[string]uint64{},
		totals: map[[2]string]uint64{}, present: map[string]bool{}, origins: map[string]string{},
		ledger: make(chan []bridge.MirrorStatus), events: make(chan localach.Event),
	}
	var ts unix.Timespec
	r.begun = time.Now()
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return Report{}, err
	}
	r.mono = time.Duration(ts.Nano()) - time.Since(r.begun)
	if err := r.lookAround(ctx); err != nil {
		return Report{}, err
	}
	out := &files{Files: cfg.Files, now: time.Now}
	if err := out.open(); err != nil {
		return Report{}, err
	}
	err = r.run(ctx, out)
	r.report.Files, r.report.Took, r.report.Channels = out.made, time.Since(r.begun), len(r.seen)
	return r.report, err
}

// lookAround notes what there is when the recording begins.
func (r *recorder) lookAround(ctx context.Context) error {
	list, err := r.Dir.List()
	if err != nil {
		return err
	}
	some := false
	for _, c := range list {
		r.present[c.Name] = true
		some = some || r.wanted(c.Name)
	}
	if !some {
		r.Note("no channel matches yet: it begins when one appears")
	}
	if r.Mirrors == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	if list, err := r.Mirrors(ctx); err == nil {
		r.account(list)
	}
	return nil
}

// run works until ctx ends, or the writer fails.
func (r *recorder) run(ctx context.Context, out *files) error {
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return ignore(inner, r.watcher.Run(inner)) })
	group.Go(func() error {
		return ignore(inner, r.Dir.Watch(inner, func(e localach.Event) {
			select {
			case r.events <- e:
			case <-inner.Done():
			}
		}))
	})
	if r.Mirrors != nil {
		group.Go(func() error { r.askLedger(inner); return nil })
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

// ignore is err unless ctx has ended, which is the reason then.
func ignore(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

const (
	lookEvery  = time.Second // channels are checked, and the ledger read
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
	}()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	for ctx.Err() == nil {
		select {
		case <-r.wake:
		case <-r.queue.taken:
		case <-retry.C:
		case e := <-r.events:
			r.changed(e)
		case list := <-r.ledger:
			r.account(list)
		case <-tick.C:
			r.check()
		case <-ctx.Done():
		}
		if r.drain() {
			retry.Reset(busyRetry)
		}
	}
	for _, s := range r.streams {
		s.due.Store(true)
	}
	r.drain()
}

// drain reads what is due, and reports whether something was busy and is to be tried
// again. What a full queue has no room for waits for the writer.
func (r *recorder) drain() (busy bool) {
	for _, s := range r.streams {
		if !s.due.Swap(false) {
			continue
		}
		switch err := r.drainOne(s); {
		case err == nil, none(err):
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
			r.report.Missed += missed
			r.drop(now, s.topic.Channel, "missed", missed)
		}
		r.seen[s.topic.Channel] = true
		r.report.Frames++
		seq := s.r.Seq()
		r.queue.add(item{topic: s.topic, seq: seq, log: now, publish: r.published(s, seq, now)}, frame)
	}
}

// now is the log time of this moment.
func (r *recorder) now() int64 { return r.begun.UnixNano() + int64(time.Since(r.begun)) }

// published is when frame seq was captured, now when nobody tells. The daemon tells of
// a frame right after it was put.
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
	r.totals[key] += count
	r.queue.add(item{log: now, drop: Drop{channel, cause, count, r.totals[key]}}, nil)
}

// wanted reports whether a channel is to be recorded. Companions of mirrors are only by
// their exact name: what they tell is in the publish times.
func (r *recorder) wanted(name string) bool {
	if slices.Contains(r.Patterns, name) {
		return true
	}
	if len(r.Patterns) > 0 && !slices.ContainsFunc(r.Patterns, func(p string) bool { ok, _ := path.Match(p, name); return ok }) {
		return false
	}
	ch, err := r.Dir.TryOpen(name)
	if err != nil {
		return true // opening it will say why
	}
	defer ch.Close()
	_, companion := bridge.MetaOf(name, ch.Tag())
	return !companion
}

// changed follows the directory.
func (r *recorder) changed(e localach.Event) {
	if s := r.streams[e.Name]; s != nil {
		_ = r.drainOne(s) // what it held is still there for us
		r.forget(s)
	}
	if mirror, ok := strings.CutSuffix(e.Name, ".meta"); ok {
		if s := r.streams[mirror]; s != nil {
			r.attach(s)
		}
	}
	if e.Kind != localach.Vanished && r.wanted(e.Name) {
		r.begin(e.Name)
	}
}

func (r *recorder) begin(name string) {
	s, err := openStream(r.Dir, name, r.Host, !r.present[name])
	if err != nil {
		if r.failed[name] != err.Error() {
			r.failed[name] = err.Error()
			r.Note("%s is not recorded: %v", name, err)
		}
		return
	}
	delete(r.failed, name)
	delete(r.present, name) // the next of that name is another one
	s.topic.Origin = r.origins[name]
	r.streams[name] = s
	s.due.Store(true)
	s.notice = r.watcher.Watch(s.ch, func(uint64) {
		s.due.Store(true)
		poke(r.wake)
	})
}

// attach takes up the companion of a mirror that appeared, changed or vanished.
func (r *recorder) attach(s *stream) {
	_ = r.drainOne(s)
	s.meta.close()
	s.meta = openCompanion(r.Dir, s.topic.Channel)
	topic := *s.topic
	if topic.Times = ""; s.meta != nil {
		topic.Times = "origin"
	}
	s.topic = &topic
}

// end gives up a channel that cannot be read any more; it is opened again when it is
// good again.
func (r *recorder) end(s *stream, err error) {
	name := s.topic.Channel
	r.forget(s)
	if errors.Is(err, localach.ErrReinitialised) || errors.Is(err, localach.ErrReplaced) {
		r.begin(name)
		return
	}
	if !errors.Is(err, localach.ErrUnlinked) {
		r.failed[name] = err.Error()
		r.Note("%s is not recorded any more: %v", name, err)
	}
}

func (r *recorder) forget(s *stream) {
	delete(r.streams, s.topic.Channel)
	s.close()
}

// check finds what no event tells of: channels that were initialised anew in place, or
// that can be read again.
func (r *recorder) check() {
	for _, s := range slices.Collect(maps.Values(r.streams)) {
		if err := s.ch.Check(); err != nil && !errors.Is(err, localach.ErrBusy) {
			_ = r.drainOne(s)
			r.end(s, err)
		}
	}
	for name := range r.failed {
		if r.streams[name] == nil {
			r.begin(name)
		}
	}
}

// askLedger reads the daemon's account of its mirrors once a second, if there is one.
func (r *recorder) askLedger(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if list, err := r.Mirrors(ctx); err == nil {
			select {
			case r.ledger <- list:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// account notes what did not get into the mirrors that are recorded.
func (r *recorder) account(list []bridge.MirrorStatus) {
	for _, m := range list {
		r.originOf(m)
		fates := map[string]uint64{
			"superseded": m.Superseded, "rate_limited": m.RateLimited, "expired": m.Expired, "lost": m.Lost,
			"late": m.Late, "refused": m.Refused, "overflow": m.Overflow,
		}
		before, known := r.fates[m.Name]
		if known && r.streams[m.Name] == nil {
			continue // it counts from the beginning when it appears
		}
		r.fates[m.Name] = fates
		if !known {
			continue
		}
		for _, cause := range slices.Sorted(maps.Keys(fates)) {
			if fates[cause] > before[cause] {
				r.drop(r.now(), m.Name, cause, fates[cause]-before[cause])
			}
			fates[cause] = max(fates[cause], before[cause]) // a frame that was late may not be late any more
		}
	}
}

func (r *recorder) originOf(m bridge.MirrorStatus) {
	origin := m.Host + "/" + m.Channel
	if r.origins[m.Name] == origin {
		return
	}
	r.origins[m.Name] = origin
	if s := r.streams[m.Name]; s != nil && s.topic.Origin != origin {
		topic := *s.topic
		topic.Origin = origin
		s.topic = &topic
	}
}

// write has the files take what was read, until the reader has ended.
func (r *recorder) write(out *files, ended <-chan struct{}) (err error) {
	defer func() {
		if err != nil {
			out.fail()
		}
	}()
	tick := time.NewTicker(takeEvery)
	defer tick.Stop()
	var b batch
	for {
		last := false
		select {
		case <-r.queue.ready:
		case <-tick.C:
		case <-ended:
			last = true
		}
		b = r.queue.take(b)
		if err := b.write(out); err != nil {
			return err
		}
		if err := out.flush(); err != nil {
			return err
		}
		if last {
			return out.close()
		}
	}
}

func (b batch) write(out *files) error {
	at := 0
	for _, i := range b.items {
		if i.topic == nil {
			if err := out.drop(uint64(i.log), i.drop); err != nil {
				return err
			}
			continue
		}
		data := b.data[at : at+i.size]
		at += i.size
		m := mcap.Message{Sequence: uint32(i.seq), LogTime: uint64(i.log), PublishTime: uint64(i.publish), Data: data}
		if err := out.frame(*i.topic, m); err != nil {
			return err
		}
	}
	return nil
}
