// Package plot draws numbers over time on a terminal.
//
//	p := plot.New("krang/imu", 10*time.Second)
//	p.Add(time.Now(), []values.Number{{Path: "gyro.z", Unit: "rad/s", X: 0.5}})
//	fmt.Println(p.Page(time.Now(), plot.Screen{Width: 80, Height: 24}))
//
// plot.go keeps the numbers, page.go draws them, watch.go repeats that on a terminal.
package plot

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/values"
)

// Plot keeps numbers of the newest frames, for the time of one window. Safe for concurrent use.
type Plot struct {
	mu     sync.Mutex
	title  string
	window time.Duration
	lines  []line
	slots  []slot // oldest first
	frames uint64
	newest time.Time
	unfit  uint64
	why    error // the newest frame that did not fit
}

// line is one number over time.
type line struct{ path, unit string }

// slot is what came in a short part of the window: the newest numbers, and the lowest and highest.
type slot struct {
	at        time.Time
	frames    uint64
	last      [maxLines]float64 // by line; NaN: none
	low, high [maxLines]float64
}

const (
	maxLines = 8
	slots    = 1024 // number of slots in a window
)

// New returns an empty plot.
func New(title string, window time.Duration) *Plot { return &Plot{title: title, window: window} }

// Add adds the numbers of a frame received at the given time. The first frame with numbers defines the
// lines; a later frame may lack some of them. Add returns an error if there are too many lines.
func (p *Plot) Add(at time.Time, numbers []values.Number) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == 0 {
		if len(numbers) > maxLines {
			return ui.Usage(fmt.Errorf("plot: %d lines are too many to tell apart", len(numbers)), fmt.Sprintf("name fields with %d numbers at most, as in joint[2].pos", maxLines))
		}
		for _, n := range numbers {
			p.lines = append(p.lines, line{n.Path, n.Unit})
		}
	}
	p.frames++
	p.newest = at
	s := p.slot(at)
	s.frames++
	for i, l := range p.lines {
		s.last[i] = math.NaN()
		k := slices.IndexFunc(numbers, func(n values.Number) bool { return n.Path == l.path })
		if k < 0 || math.IsNaN(numbers[k].X) || math.IsInf(numbers[k].X, 0) {
			continue
		}
		x := numbers[k].X
		p.lines[i].unit = numbers[k].Unit // a later layout may have another unit
		s.last[i], s.low[i], s.high[i] = x, math.Min(s.low[i], x), math.Max(s.high[i], x)
	}
	return nil
}

// Unfit counts a frame that does not fit its layout.
func (p *Plot) Unfit(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unfit, p.why = p.unfit+1, why
}

// Began reports whether any frame was received, with or without a mismatch.
func (p *Plot) Began() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frames+p.unfit > 0
}

// slot returns the slot for at, which must not be before the newest slot. It may add a slot.
func (p *Plot) slot(at time.Time) *slot {
	length := max(1, p.window/slots)
	if n := len(p.slots); n > 0 && at.Sub(p.slots[n-1].at) < length {
		return &p.slots[n-1]
	}
	old := 0
	for old+1 < len(p.slots) && at.Sub(p.slots[old+1].at) > p.window {
		old++ // the newest before the window is what the window begins with
	}
	p.slots = slices.Delete(p.slots, 0, old)
	s := slot{at: at}
	for i := range maxLines {
		s.last[i], s.low[i], s.high[i] = math.NaN(), math.Inf(1), math.Inf(-1)
	}
	p.slots = append(p.slots, s)
	return &p.slots[len(p.slots)-1]
}

// span returns the lowest and the highest number of line i in the window that ends now. ok is false if there is none.
func (p *Plot) span(i int, now time.Time) (low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, s := range p.slots {
		if now.Sub(s.at) <= p.window {
			low, high = math.Min(low, s.low[i]), math.Max(high, s.high[i])
		}
	}
	return low, high, low <= high
}

// columns divides the window that ends now into columns, and returns a number of line i for each: the newest one
// until the end of the column. NaN means no number, as after the newest frame.
func (p *Plot) columns(i, width int, now time.Time) []float64 {
	list, next, held := make([]float64, width), 0, math.NaN()
	for c := range list {
		end := now.Add(-p.window + time.Duration(float64(p.window)*float64(c+1)/float64(width)))
		for next < len(p.slots) && !p.slots[next].at.After(end) {
			held = p.slots[next].last[i]
			next++
		}
		list[c] = held
		if next == len(p.slots) {
			held = math.NaN()
		}
	}
	return list
}

// rate returns the number of frames per second in the window.
func (p *Plot) rate() float64 {
	first := slices.IndexFunc(p.slots, func(s slot) bool { return p.newest.Sub(s.at) <= p.window })
	if first < 0 {
		return 0
	}
	n := uint64(0)
	for _, s := range p.slots[first:] {
		n += s.frames
	}
	if span := p.newest.Sub(p.slots[first].at).Seconds(); span > 0 {
		return float64(n-1) / span
	}
	return 0
}
