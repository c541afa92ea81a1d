// Package plot draws numbers over time on a terminal.
//
//	p := plot.New("krang/imu", 10*time.Second)
//	p.Add(time.Now(), []values.Number{{Path: "gyro.z", Unit: "rad/s", X: 0.5}})
//	fmt.Println(p.Page(time.Now(), plot.Screen{Width: 80, Height: 24}))
//
// plot.go stores the numbers, page.go draws them, and watch.go repaints the page on a terminal.
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

// Plot stores the numbers of the frames in one window. It is safe for concurrent use.
type Plot struct {
	mu     sync.Mutex
	title  string
	window time.Duration
	lines  []line
	slots  []slot // oldest first
	frames uint64
	newest time.Time
	unfit  uint64
	why    error // why the newest frame does not match its layout
}

// line is one number over time.
type line struct{ path, unit string }

// slot has the newest, lowest and highest numbers of a short part of the window.
type slot struct {
	at        time.Time
	frames    uint64
	last      [maxLines]float64 // by line; NaN means no number
	low, high [maxLines]float64
}

const (
	maxLines = 8
	slots    = 1024 // number of slots in a window
)

// New returns an empty plot.
func New(title string, window time.Duration) *Plot { return &Plot{title: title, window: window} }

// Add adds the numbers of a frame that arrived at a time. The first frame with numbers determines the lines;
// a later one may lack some. Add returns an error if there are more numbers than lines fit.
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
		p.lines[i].unit = numbers[k].Unit // a changed layout may have another unit
		s.last[i], s.low[i], s.high[i] = x, math.Min(s.low[i], x), math.Max(s.high[i], x)
	}
	return nil
}

// Unfit counts a frame that does not match its layout.
func (p *Plot) Unfit(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unfit, p.why = p.unfit+1, why
}

// Began reports whether any frame arrived.
func (p *Plot) Began() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frames+p.unfit > 0
}

// slot returns the slot of a time, which must not be before that of the newest slot.
func (p *Plot) slot(at time.Time) *slot {
	length := max(1, p.window/slots)
	if n := len(p.slots); n > 0 && at.Sub(p.slots[n-1].at) < length {
		return &p.slots[n-1]
	}
	old := 0
	for old+1 < len(p.slots) && at.Sub(p.slots[old+1].at) > p.window {
		old++ // the window begins with the newest slot before it
	}
	p.slots = slices.Delete(p.slots, 0, old)
	s := slot{at: at}
	for i := range maxLines {
		s.last[i], s.low[i], s.high[i] = math.NaN(), math.Inf(1), math.Inf(-1)
	}
	p.slots = append(p.slots, s)
	return &p.slots[len(p.slots)-1]
}

// span returns the lowest and highest number of a line in the window that ends now, or false if there are none.
func (p *Plot) span(i int, now time.Time) (low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, s := range p.slots {
		if now.Sub(s.at) <= p.window {
			low, high = math.Min(low, s.low[i]), math.Max(high, s.high[i])
		}
	}
	return low, high, low <= high
}

// columns returns the newest number of a line in each column of the window that ends now. A column without
// frames repeats the number before it, up to the newest frame. NaN means no number.
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

// rate returns the frame rate in the window, in Hz.
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
