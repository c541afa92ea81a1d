package view

import (
	"math"
	"sync"
	"time"

	"achbridge/cmd/achbridge/ui"
)

// Meter measures the rate, the period and the size of a channel's frames over a sliding window.
// The caller passes the time to add and Measure. A Meter is safe for concurrent use.
type Meter struct {
	Channel string // name in the reports
	Window  time.Duration

	mu       sync.Mutex
	arrivals []arrival // oldest first; the first may be older than the window
}

// arrival is one frame as it was read.
type arrival struct {
	at   time.Time
	seq  uint64
	size int
}

// Rate is one report. Frames counts the frames read in the window. Missed counts the frames put
// between them that were overwritten before they could be read.
type Rate struct {
	Channel  string  `json:"channel"`
	WindowS  float64 `json:"window_s"`
	Frames   int     `json:"frames"`
	Missed   uint64  `json:"missed"`
	Hz       float64 `json:"rate_hz"`
	PeriodMs float64 `json:"period_ms"`
	// PeriodMinMs and PeriodMaxMs are the shortest and longest time between two frames.
	PeriodMinMs float64 `json:"period_min_ms"`
	PeriodMaxMs float64 `json:"period_max_ms"`
	JitterMs    float64 `json:"jitter_ms"`
	SizeMin     int     `json:"size_min"`
	SizeMean    float64 `json:"size_mean"`
	SizeMax     int     `json:"size_max"`
	// BytesPerS counts the bytes of frames put per second.
	BytesPerS float64 `json:"bytes_per_s"`
}

// Sizes returns the size of the frames, or the smallest and largest, as text.
func (r Rate) Sizes() string {
	return ui.SizeRange(r.SizeMin, r.SizeMax)
}

// Read adds each frame that is put from now on, until the view ends. It calls ready before the first.
func (m *Meter) Read(l View, ready func()) error {
	m.restart()
	f := NewFollower(l.Channel)
	if err := f.Reader.Flush(); err != nil {
		return err
	}
	ready()
	return f.Each(l.Ctx, f.Oldest, func(frame []byte) error {
		if l.fresh {
			l.fresh = false
			return nil
		}
		m.add(arrival{at: time.Now(), seq: f.Reader.Seq(), size: len(frame)})
		return nil
	})
}

// restart forgets all arrivals: a channel that was opened again numbers its frames from 1.
func (m *Meter) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.arrivals = nil
}

func (m *Meter) add(a arrival) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.arrivals = append(m.arrivals, a)
}

// Measure returns the report about the window that ends at now, and drops older frames,
// except the last one before the window, with which the first interval begins.
func (m *Meter) Measure(now time.Time) Rate {
	m.mu.Lock()
	defer m.mu.Unlock()
	begin := now.Add(-m.Window)
	drop := 0
	for drop+1 < len(m.arrivals) && m.arrivals[drop+1].at.Before(begin) {
		drop++
	}
	m.arrivals = append(m.arrivals[:0], m.arrivals[drop:]...)

	r := Rate{Channel: m.Channel, WindowS: m.Window.Seconds()}
	var sum, squares, bytes float64
	var put uint64
	var intervals int
	for i, a := range m.arrivals {
		if a.at.Before(begin) {
			continue
		}
		if r.Frames == 0 {
			r.SizeMin, r.SizeMax = a.size, a.size
		}
		r.Frames++
		r.SizeMin, r.SizeMax = min(r.SizeMin, a.size), max(r.SizeMax, a.size)
		bytes += float64(a.size)
		if i == 0 {
			continue
		}
		before := m.arrivals[i-1]
		steps := a.seq - before.seq
		put += steps
		r.Missed += steps - 1
		// Frames that were missed share the interval evenly.
		period := a.at.Sub(before.at).Seconds() * 1000 / float64(steps)
		sum += period * float64(steps)
		squares += period * period * float64(steps)
		if intervals == 0 {
			r.PeriodMinMs = period
		}
		r.PeriodMinMs, r.PeriodMaxMs = min(r.PeriodMinMs, period), max(r.PeriodMaxMs, period)
		intervals++
	}
	if r.Frames > 0 {
		r.SizeMean = bytes / float64(r.Frames)
	}
	if intervals > 0 && sum > 0 {
		mean := sum / float64(put)
		r.PeriodMs = mean
		r.Hz = 1000 / mean
		r.BytesPerS = r.Hz * r.SizeMean
		r.JitterMs = math.Sqrt(max(0, squares/float64(put)-mean*mean))
	}
	return r
}
