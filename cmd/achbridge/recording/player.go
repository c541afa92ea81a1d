package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// Play holds the options of playing a file.
type Play struct {
	Dir        localach.Dir
	File       string
	Patterns   []string          // valid patterns of channels in the file; none means all channels
	Remap      map[string]string // names of the channels to put into, by their names in the file
	Rate       float64           // speed, above 0; 1 means as recorded
	AsRecorded bool              // put frames at the times of reading, not of capture
	// OnGap is called before a wait of more than gapNote for the next frame, on the goroutine of Run. nil means no call.
	OnGap func(wait time.Duration)
}

// gapNote is the shortest wait for a frame that is reported as a gap.
const gapNote = 2 * time.Second

// Played is the result of playing a file.
type Played struct {
	Channels int           `json:"channels"`
	Frames   uint64        `json:"frames"`
	Took     time.Duration `json:"-"`
	Late     time.Duration `json:"-"`        // how late the latest frame was put
	Others   int           `json:"others"`   // topics that are not Ach channels
	Unparsed uint64        `json:"unparsed"` // frames not put, because their stamps cannot be shifted
	Complete bool          `json:"complete"` // the file was not cut short
}

// Errors of playing.
var (
	ErrNothing = errors.New("the file has no channel to play")
	ErrMirror  = errors.New("it is a mirror, which achbridge writes")
	ErrSmall   = errors.New("its frames are too small")
)

// ChannelError is the reason why frames cannot be put into a channel.
type ChannelError struct {
	Channel string
	Topic   Topic // the recorded channel
	Size    int   // size of the frame that does not fit, with ErrSmall
	Err     error
}

func (e *ChannelError) Error() string { return fmt.Sprintf("channel %s: %v", e.Channel, e.Err) }
func (e *ChannelError) Unwrap() error { return e.Err }

// aheadTime limits how far the player reads ahead, as maxWaiting does. A frame may have been captured before frames that
// come earlier in the file.
const aheadTime = time.Minute

// player puts the frames of one file.
type player struct {
	Play
	r         *Reader
	outs      map[string]*out // channels to put into, by the name in the file
	skipped   map[string]bool
	others    map[string]bool
	ahead     []frame   // frames read but not put yet, in the order of their puts
	bytes     int       // size of these frames
	n         int       // frames read
	read      time.Time // log time of the last frame read
	readErr   error
	first     time.Time     // where playing began, on the file's clock
	startedAt time.Time     // when playing began
	mono      time.Duration // CLOCK_MONOTONIC at startedAt
	played    Played
}

// frame is a frame that waits for its time to be put.
type frame struct {
	at, log time.Time // when to put it, on the file's clock; when the recorder had read it
	n       int       // its place in the file
	topic   Topic
	data    []byte
	stamps  *restamper // nil if the file had not said before the frame that its channel has stamps
}

// order compares frames by when to put them, then by their places in the file.
func (f frame) order(o frame) int { return cmp.Or(f.at.Compare(o.at), cmp.Compare(f.n, o.n)) }

// out is a channel that is played into.
type out struct {
	ch        *localach.Channel
	w         *localach.Writer
	last      time.Time  // when to put the previous frame: the order of frames is kept
	checkedAt time.Time  // when its file was last looked at
	first     *restamper // restamper of the first frame for which the file has a rule for stamps; nil before that frame
	stamps    *restamper // restamper of the last such frame
}

// Run puts the frames until the file or ctx ends. The returned counts are valid even if there is
// an error.
func (p Play) Run(ctx context.Context) (Played, error) {
	if err := p.check(); err != nil {
		return Played{}, err
	}
	r, err := Open(p.File)
	if err != nil {
		return Played{}, err
	}
	defer r.Close()
	b := player{Play: p, r: r, outs: map[string]*out{}, skipped: map[string]bool{}, others: map[string]bool{}}
	defer b.close()
	begun := time.Now()
	err = b.run(ctx)
	b.played.Took, b.played.Channels, b.played.Others = time.Since(begun), len(b.outs), len(b.others)
	b.played.Complete = !errors.Is(b.readErr, ErrCut)
	return b.played, err
}

func (p Play) check() error {
	to := map[string]string{}
	for _, from := range slices.Sorted(maps.Keys(p.Remap)) {
		name := p.Remap[from]
		if err := localach.CheckName(name); err != nil {
			return err
		}
		if other, twice := to[name]; twice {
			return fmt.Errorf("%s and %s cannot both be put into %s", other, from, name)
		}
		to[name] = from
	}
	return nil
}

func (p *player) run(ctx context.Context) error {
	if err := p.fill(); err != nil {
		return err
	}
	if len(p.ahead) == 0 {
		return fmt.Errorf("%s: %w", p.File, ErrNothing)
	}
	p.first, p.startedAt = p.start(), time.Now()
	p.mono = status.Monotonic(p.startedAt)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for len(p.ahead) > 0 {
		f := p.ahead[0]
		p.ahead[0], p.ahead = frame{}, p.ahead[1:]
		p.bytes -= len(f.data)
		due := p.startedAt.Add(time.Duration(float64(f.at.Sub(p.first)) / p.Rate))
		wait := time.Until(due)
		if wait > gapNote && p.OnGap != nil {
			p.OnGap(wait)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if err := p.put(f); err != nil {
			return err
		}
		if due.Before(p.startedAt) {
			due = p.startedAt // it was captured before the recording began
		}
		p.played.Late = max(p.played.Late, time.Since(due))
		if err := p.fill(); err != nil {
			return err
		}
	}
	if errors.Is(p.readErr, io.EOF) || errors.Is(p.readErr, ErrCut) {
		return nil
	}
	return p.readErr
}

// start returns the time in the file at which playing begins: the time when the first frame was
// read. Frames that were already in their rings then are put at once.
func (p *player) start() time.Time {
	first := p.ahead[0]
	for _, f := range p.ahead {
		if f.n < first.n {
			first = f
		}
	}
	if p.AsRecorded {
		return first.at
	}
	earliest := first.log
	for _, f := range p.ahead {
		if f.at.Before(earliest) && first.log.Sub(f.at) < time.Second {
			earliest = f.at
		}
	}
	return earliest
}

// fill reads frames ahead of their time.
func (p *player) fill() error {
	for p.readErr == nil {
		if len(p.ahead) > 0 && (p.bytes > maxWaiting || p.read.Sub(p.ahead[0].at) > aheadTime) {
			return nil
		}
		record, err := p.r.Next()
		if err != nil {
			p.readErr = err
			return nil
		}
		if err := p.take(record); err != nil {
			return err
		}
	}
	return nil
}

// take keeps a frame until it is due.
func (p *player) take(r Record) error {
	if r.Topic == nil {
		if r.Drop == nil {
			p.others[r.Name] = true
		}
		return nil
	}
	o, err := p.out(*r.Topic)
	if err != nil || o == nil {
		return err
	}
	if s := r.Topic.Stamps; s.Rule != "" && !r.Topic.isMismatch() && (o.stamps == nil || o.stamps.of != s) {
		if o.stamps, err = newRestamper(*r.Topic); err != nil {
			return &ChannelError{Channel: o.ch.Name(), Topic: *r.Topic, Err: err}
		}
		o.first = cmp.Or(o.first, o.stamps)
	}
	at := r.Publish
	if p.AsRecorded {
		at = r.Log
	}
	if at.Before(o.last) {
		at = o.last
	}
	o.last = at
	f := frame{at: at, log: r.Log, n: p.n, topic: *r.Topic, data: slices.Clone(r.Data), stamps: o.stamps}
	place, _ := slices.BinarySearchFunc(p.ahead, f, frame.order)
	p.ahead = slices.Insert(p.ahead, place, f)
	p.n++
	p.bytes += len(r.Data)
	p.read = r.Log
	return nil
}

// out returns the channel for the frames of a topic, or nil if the topic is not played.
func (p *player) out(t Topic) (*out, error) {
	if o := p.outs[t.Channel]; o != nil || p.skipped[t.Channel] {
		return o, nil
	}
	if len(p.Patterns) > 0 && !rule.Matches(p.Patterns, t.Channel) {
		p.skipped[t.Channel] = true
		return nil, nil
	}
	name := t.Channel
	if other, ok := p.Remap[name]; ok {
		name = other
	}
	ch, err := p.open(name, t)
	if err != nil {
		return nil, &ChannelError{Channel: name, Topic: t, Err: err}
	}
	o := &out{ch: ch, w: ch.Writer()}
	p.outs[t.Channel] = o
	return o, nil
}

// open opens the channel that a topic is played into, or creates it as it was recorded.
func (p *player) open(name string, t Topic) (*localach.Channel, error) {
	for from, o := range p.outs {
		if o.ch.Name() == name {
			return nil, fmt.Errorf("%s of the file goes there too", from)
		}
	}
	ch, err := p.Dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		mode, _ := strconv.ParseUint(t.Mode, 8, 9)
		geometry := localach.Geometry{FrameCount: t.FrameCount, FrameSize: t.FrameSize}
		return p.Dir.Create(name, localach.CreateConfig{Geometry: geometry.Grow(), Mode: fs.FileMode(mode)})
	}
	if err == nil && ch.Tag() != (localach.Tag{}) {
		ch.Close()
		return nil, ErrMirror
	}
	return ch, err
}

func (p *player) put(f frame) error {
	o := p.outs[f.topic.Channel]
	if len(f.data) > o.ch.Geometry().FrameSize && len(f.data) <= f.topic.FrameSize {
		return &ChannelError{Channel: o.ch.Name(), Topic: f.topic, Size: len(f.data), Err: fmt.Errorf("%w: they have %d bytes, one of those recorded %d", ErrSmall, o.ch.Geometry().FrameSize, len(f.data))}
	}
	if err := o.checkFile(); err != nil {
		return &ChannelError{Channel: o.ch.Name(), Topic: f.topic, Err: err}
	}
	data := f.data
	switch shift := cmp.Or(f.stamps, o.first); {
	case f.topic.isMismatch(), f.stamps != nil && f.topic.Stamps.Rule == "": // the option was switched off: the clock of the stamps is unknown
		p.played.Unparsed++
		return nil
	case shift != nil:
		// A frame that was in its ring before the recording began is as old when playing begins as it was then.
		var err error
		if data, err = shift.restamped(f.data, latest(f.at, p.first), p.mono+time.Since(p.startedAt)); err != nil {
			p.played.Unparsed++
			return nil
		}
	}
	if _, err := o.w.Put(data); err != nil {
		return &ChannelError{Channel: o.ch.Name(), Topic: f.topic, Size: len(f.data), Err: err}
	}
	p.played.Frames++
	return nil
}

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// fileCheckEvery is the interval at which the player checks that a channel still exists.
const fileCheckEvery = 100 * time.Millisecond

// checkFile returns an error if the channel's file was removed or replaced: nobody would see a frame.
func (o *out) checkFile() error {
	if time.Since(o.checkedAt) < fileCheckEvery {
		return nil
	}
	o.checkedAt = time.Now()
	if err := o.ch.Check(); !errors.Is(err, localach.ErrBusy) {
		return err
	}
	return nil
}

func (p *player) close() {
	for _, o := range p.outs {
		o.w.Close()
		o.ch.Close()
	}
}

// Remapping parses texts of the form NAME=OTHER into Play.Remap.
func Remapping(list []string) (map[string]string, error) {
	m := map[string]string{}
	for _, text := range list {
		from, to, ok := strings.Cut(text, "=")
		if !ok || from == "" || to == "" {
			return nil, fmt.Errorf("%q: want NAME=OTHER, as in krang.imu=imu", text)
		}
		if _, twice := m[from]; twice {
			return nil, fmt.Errorf("%s is given twice", from)
		}
		m[from] = to
	}
	return m, nil
}
