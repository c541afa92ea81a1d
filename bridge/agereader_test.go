package bridge

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"achbridge/localach"
)

// ageReader reads a mirror in order, as a program would, and records the age of the newest frame
// at each look. It uses only the time stamp in the frame. Frequent looks at equal intervals make
// the age time-weighted.
type ageReader struct {
	t      *testing.T
	ch     *localach.Channel
	r      *localach.Reader
	buf    []byte
	stamp  time.Duration // time stamp of the newest frame, relative to the first one
	ages   []float64     // ms
	frames []ageSample
}

// ageSample is a frame that was read from a mirror. Times are relative to the first frame.
type ageSample struct {
	number    uint64
	stamp, at time.Duration
}

// openAgeReader opens a mirror. The caller must close it.
func openAgeReader(t *testing.T, dir localach.Dir, name string) *ageReader {
	t.Helper()
	ch, err := dir.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	g := ch.Geometry()
	return &ageReader{t: t, ch: ch, r: ch.Reader(), buf: make([]byte, g.FrameCount*g.FrameSize)}
}

// sample takes one sample, at a time relative to begin.
func (a *ageReader) sample(begin time.Time, at time.Duration) {
	for a.ch.LastSeq() > a.r.Seq() { // a read without a new frame would cost more
		n, err := a.r.NextOldest(a.buf, 0)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			a.t.Fatal(err)
		}
		b := a.buf[:n]
		number := binary.LittleEndian.Uint64(b)
		if b[n-1] != byte(number) || b[n/2] != byte(number) {
			a.t.Errorf("%s: frame %d is damaged", a.ch.Name(), number)
		}
		a.stamp = time.Duration(int64(binary.LittleEndian.Uint64(b[8:])) - begin.UnixNano())
		a.frames = append(a.frames, ageSample{number, a.stamp, at})
	}
	a.ages = append(a.ages, float64(at-a.stamp)/1e6)
}

// stat has the results of one channel in one window with one seed. Times are in ms unless noted.
type stat struct {
	floor, formula float64 // mean age: by the oracle, and by the formula
	mean, p99, max float64
	p95            float64
	alone          float64 // p99 when the load has the link to itself
	perSecond      float64
	missing        int     // frames put in the window that never arrived
	arrivedFrames  int     // frames that arrived
	late           int     // frames that arrived past their budget and are not in late_kept
	unexcused      int     // missing or late frames of which fewer than three packets were lost
	gap            float64 // longest time without a frame, s
	fresh          float64 // time from the link's return to the first frame within its budget
	way            float64 // greatest age of a frame at its arrival
}

// sum computes a stat from the samples and frames of window w.
func (a *ageReader) sum(w window, b *bench, l load) stat {
	s := ageStat(cut(a.ages, w, b.s.step()))
	budget := l.qos.EffectiveBudget()
	last, at := w.from, map[uint64]ageSample{}
	s.fresh = 1e9
	for _, f := range a.frames {
		at[f.number] = f
		if f.at >= b.s.back && f.at-f.stamp <= budget {
			s.fresh = min(s.fresh, float64(f.at-b.s.back)/1e6)
		}
		if f.at < w.from || f.at >= w.to {
			continue
		}
		s.gap, last = max(s.gap, (f.at-last).Seconds()), f.at
		s.arrivedFrames++
		s.perSecond += 1 / (w.to - w.from).Seconds()
		s.way = max(s.way, float64(f.at-f.stamp)/1e6)
		if f.at-f.stamp > budget {
			s.late++
		}
	}
	s.late = max(0, s.late-int(b.lateKept[a.ch.Name()]))
	s.gap = max(s.gap, (w.to - last).Seconds())
	phase := b.phases[slices.Index(b.s.loads, l)]
	for number := uint64(1); number == 1 || !l.once; number++ {
		put := phase + l.start + time.Duration(number-1)*l.period
		if put >= w.to-second {
			break // later frames may still be in transit
		}
		f, came := at[number]
		if put < w.from || came && f.at-f.stamp <= budget {
			continue
		}
		if !came {
			s.missing++
		}
		if b.lost(put, put+l.period, l.size) < 3 {
			s.unexcused++
		}
	}
	return s
}

// lost counts the packets of at least size bytes that were lost from from to to.
func (b *bench) lost(from, to time.Duration, size int) (n int) {
	for _, p := range b.losses {
		if p.at >= from && p.at < to && p.size >= size {
			n++
		}
	}
	return n
}

// cut returns the samples of window w.
func cut(ages []float64, w window, step time.Duration) []float64 {
	return ages[min(int(w.from/step), len(ages)):min(int(w.to/step), len(ages))]
}

func ageStat(ages []float64) stat {
	s := stat{}
	if len(ages) == 0 {
		return s
	}
	sorted := slices.Sorted(slices.Values(ages))
	for _, v := range sorted {
		s.mean += v / float64(len(sorted))
	}
	s.p95 = sorted[(len(sorted)-1)*95/100]
	s.p99, s.max = sorted[(len(sorted)-1)*99/100], sorted[len(sorted)-1]
	return s
}
