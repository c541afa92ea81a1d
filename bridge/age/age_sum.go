package age

import (
	"math/bits"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Stat describes an age over a span of time, weighted by time. The quantiles are accurate to 8 µs or 0.4 %; the
// other values are exact.
type Stat struct {
	Span time.Duration // time in which the age was known; if 0, the other fields are 0 too
	Mean time.Duration
	P50  time.Duration // not exceeded half of the time
	P99  time.Duration
	Peak time.Duration // greatest age: that right before a frame was put, or the age now
	Over time.Duration // time above the limit set by Put or Limit
}

// Bounds are the upper bounds of the histogram of ages.
var Bounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 60 * time.Second,
}

// sawtooth is a set of straight lines along which an age has grown. It counts how many lines begin and end at
// each age. The time at each age follows from these counts, so that a line costs two counts however long it is.
// The zero value has no lines.
type sawtooth struct {
	begins, ends     *hdrhistogram.PackedHistogram // in µs; sparse, since there are many sawtooths
	area             float64                       // s²
	span, over, peak time.Duration
}

// The histograms distinguish ages that differ by 16 µs or a 128th.
const (
	ageUnit   = 16                                       // µs
	ageMost   = int64(1<<63-1) / int64(time.Microsecond) // µs; greatest possible Duration
	ageDigits = 2
	ageBits   = 8 // significant bits of an age
)

// add adds the line from age low to age high, without its counts.
func (s *sawtooth) add(low, high, most time.Duration) {
	s.span += high - low
	s.area += (low + high).Seconds() / 2 * (high - low).Seconds()
	s.over += max(0, high-max(low, most))
	s.peak = max(s.peak, high)
}

// count counts where the line begins and ends.
func (s *sawtooth) count(low, high time.Duration) {
	s.room()
	_ = s.begins.RecordValue(low.Microseconds()) // cannot fail, since every Duration is in range
	_ = s.ends.RecordValue(high.Microseconds())
}

func (s *sawtooth) room() {
	if s.begins == nil {
		s.begins = hdrhistogram.NewPacked(ageUnit, ageMost, ageDigits)
		s.ends = hdrhistogram.NewPacked(ageUnit, ageMost, ageDigits)
	}
}

// counter counts lines faster than a sawtooth. It needs more memory and cannot count long
// lines.
type counter struct{ begins, ends *hdrhistogram.Histogram }

const counterMost = 8 * time.Second

func newCounter() counter {
	most := counterMost.Microseconds()
	return counter{hdrhistogram.New(ageUnit, most, ageDigits), hdrhistogram.New(ageUnit, most, ageDigits)}
}

// count counts a line, or returns false if the line is too long.
func (c counter) count(low, high time.Duration) bool {
	if high > counterMost {
		return false
	}
	_ = c.begins.RecordValue(low.Microseconds())
	_ = c.ends.RecordValue(high.Microseconds())
	return true
}

func (c counter) moveTo(s *sawtooth) {
	s.room()
	s.begins.MergeFrom(c.begins)
	s.ends.MergeFrom(c.ends)
	c.begins.Reset()
	c.ends.Reset()
}

func (s *sawtooth) merge(o *sawtooth) {
	if o.begins == nil {
		return
	}
	if s.begins == nil {
		s.begins, s.ends = o.begins.Clone(), o.ends.Clone()
	} else {
		s.begins.Merge(o.begins)
		s.ends.Merge(o.ends)
	}
	s.area += o.area
	s.span += o.span
	s.over += o.over
	s.peak = max(s.peak, o.peak)
}

// reset removes all lines, but keeps the memory.
func (s *sawtooth) reset() {
	if s.begins != nil {
		s.begins.Reset()
		s.ends.Reset()
	}
	s.area, s.span, s.over, s.peak = 0, 0, 0, 0
}

func (s *sawtooth) stat(bands bands) Stat {
	if s.span == 0 {
		return Stat{}
	}
	mean := s.area / s.span.Seconds()
	return Stat{
		Span: s.span, Mean: time.Duration(mean * float64(time.Second)), Peak: s.peak, Over: s.over,
		P50: min(bands.quantile(0.5), s.peak), P99: min(bands.quantile(0.99), s.peak),
	}
}

// under returns the time at ages of at most each of Bounds.
func (s *sawtooth) under(bands bands) (list [len(Bounds)]time.Duration) {
	for i, bound := range Bounds {
		list[i] = min(bands.under(bound.Microseconds()), s.span)
	}
	return list
}

// bands is the distribution of an age: ascending bands, each of which ends where the next begins.
type bands []band

type band struct {
	from  int64   // µs
	lines int64   // number of lines that cross the band
	below float64 // time at ages below the band, in µs
}

// bands returns the bands between the ages where lines begin or end.
func (s *sawtooth) bands() bands {
	if s.begins == nil {
		return nil
	}
	begins, ends := edgesOf(s.begins), edgesOf(s.ends)
	list := make(bands, 0, len(begins)+len(ends))
	last := band{}
	for len(begins)+len(ends) > 0 {
		next := band{lines: last.lines}
		if len(ends) == 0 || len(begins) > 0 && begins[0].at <= ends[0].at {
			next.from, next.lines = begins[0].at, next.lines+begins[0].count
			begins = begins[1:]
		} else {
			next.from, next.lines = ends[0].at, next.lines-ends[0].count
			ends = ends[1:]
		}
		next.below = last.below + float64(last.lines)*float64(next.from-last.from)
		list = append(list, next)
		last = next
	}
	return list
}

// edge is the number of lines that begin, or end, at about the same age.
type edge struct{ at, count int64 }

func edgesOf(h *hdrhistogram.PackedHistogram) []edge {
	list := make([]edge, 0, h.Populated())
	for at, count := range h.ForEachBucket {
		width := max(ageUnit, int64(1)<<max(0, bits.Len64(uint64(at))-ageBits))
		list = append(list, edge{at + width/2, count})
	}
	return list
}

// quantile returns the age that was not exceeded in the share q of the time.
func (b bands) quantile(q float64) time.Duration {
	if len(b) == 0 {
		return 0
	}
	target := q * b[len(b)-1].below
	for i := len(b) - 2; i >= 0; i-- {
		if b[i].below <= target && b[i].lines > 0 {
			return micros(float64(b[i].from) + (target-b[i].below)/float64(b[i].lines))
		}
	}
	return micros(float64(b[len(b)-1].from)) // all lines are too short to be distinguished
}

// under returns the time at ages up to age.
func (b bands) under(age int64) time.Duration {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i].from <= age {
			return micros(b[i].below + float64(b[i].lines)*float64(age-b[i].from))
		}
	}
	return 0
}

func micros(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }
