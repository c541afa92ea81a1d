package age

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const msec = time.Millisecond

// periodic puts a frame every period, each delay after its capture, until end.
func periodic(a *History, period, delay, end, budget time.Duration) {
	for born := time.Second; born+delay < end; born += period {
		a.Put(born+delay, born, budget)
	}
}

// near reports whether a quantile is within the documented error.
func near(got, want time.Duration) bool {
	return (got - want).Abs() <= max(9*time.Microsecond, want/250)
}

func TestAgeOfPeriodicSourceMatchesFormulas(t *testing.T) {
	for _, c := range []struct{ period, delay, budget time.Duration }{
		{10 * msec, 5 * msec, 100 * msec},
		{10 * msec, 5 * msec, 12 * msec},
		{50 * msec, 21 * msec, 40 * msec},
		{msec, 200 * time.Microsecond, msec},
		{7 * msec, 0, 3 * msec},
		{300 * msec, 900 * msec, 1000 * msec},
	} {
		var a History
		end := time.Second + c.delay + 9*c.period*4*msec/msec
		periodic(&a, c.period, c.delay, end, c.budget)
		for name, s := range map[string]Stat{"window": a.Window(end), "total": first(a.Total(end))} {
			if want := c.delay + c.period/2; (s.Mean - want).Abs() > time.Microsecond {
				t.Errorf("%v %s: mean %v, want P + S + T/2 = %v", c, name, s.Mean, want)
			}
			if want := c.delay + c.period; s.Peak != want {
				t.Errorf("%v %s: peak %v, want P + S + T = %v", c, name, s.Peak, want)
			}
			for q, got := range map[float64]time.Duration{0.5: s.P50, 0.99: s.P99} {
				if want := c.delay + time.Duration(q*float64(c.period)); !near(got, want) {
					t.Errorf("%v %s: quantile %v is %v, want %v", c, name, q, got, want)
				}
			}
			over := min(1, max(0, (c.delay+c.period-c.budget).Seconds()/c.period.Seconds()))
			if got := s.Over.Seconds() / s.Span.Seconds(); got < over-1e-9 || got > over+1e-9 {
				t.Errorf("%v %s: %.4f of the time over budget, want %.4f", c, name, got, over)
			}
		}
	}
}

func first(s Stat, _ [len(Bounds)]time.Duration) Stat { return s }

// The ages are compared with frequent samples of an irregular age.
func TestAgesMatchSampling(t *testing.T) {
	const step, budget, end = 20 * time.Microsecond, 60 * msec, 40 * time.Second
	r := rand.New(rand.NewPCG(7, 7))
	var a History
	var samples []time.Duration
	born, put, next := time.Duration(0), time.Second, time.Second
	for at := time.Second; at < end; at += step {
		for next <= at {
			put = next
			born = put - time.Duration(r.ExpFloat64()*float64(8*msec))
			a.Put(put, born, budget)
			next = put + time.Duration(r.ExpFloat64()*float64(20*msec))
		}
		samples = append(samples, at-born)
	}
	total, under := a.Total(end)
	compare(t, "total", total, samples, budget)
	for i, bound := range Bounds {
		n := 0
		for _, s := range samples {
			if s <= bound {
				n++
			}
		}
		if got, want := under[i], time.Duration(n)*step; (got - want).Abs() > total.Span/500 {
			t.Errorf("age at most %v for %v, want %v", bound, got, want)
		}
	}
	window := a.Window(end)
	if window.Span < ageWindow || window.Span > ageWindow+time.Second {
		t.Errorf("the window is %v, want %v to a second more", window.Span, ageWindow)
	}
	compare(t, "window", window, samples[len(samples)-int(window.Span/step):], budget)
}

func compare(t *testing.T, name string, got Stat, samples []time.Duration, budget time.Duration) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(samples))
	var sum time.Duration
	over := 0
	for _, s := range sorted {
		sum += s
		if s > budget {
			over++
		}
	}
	n := len(sorted)
	for _, c := range []struct {
		what      string
		got, want time.Duration
	}{
		{"mean", got.Mean, sum / time.Duration(n)},
		{"p50", got.P50, sorted[n/2]},
		{"p99", got.P99, sorted[n*99/100]},
		{"peak", got.Peak, sorted[n-1]},
		{"over", got.Over, got.Span * time.Duration(over) / time.Duration(n)},
	} {
		if (c.got - c.want).Abs() > 40*time.Microsecond+c.want/250 {
			t.Errorf("%s: %s %v, want %v", name, c.what, c.got, c.want)
		}
	}
}

func TestAgeGrowsWithoutFrames(t *testing.T) {
	var a History
	periodic(&a, 10*msec, 5*msec, 3*time.Second, 100*msec)
	last, _ := a.Now(3 * time.Second)
	at := 3*time.Second + 5*time.Hour
	if age, ok := a.Now(at); !ok || age != last+5*time.Hour {
		t.Errorf("age %v, want %v", age, last+5*time.Hour)
	}
	w := a.Window(at)
	if w.Peak != last+5*time.Hour || w.Over != w.Span || w.Span < ageWindow || w.Span > ageWindow+time.Second {
		t.Errorf("got %+v, want a window that is over budget as a whole, with a peak of %v", w, last+5*time.Hour)
	}
	if w.Mean > w.Peak || w.Mean < w.Peak-ageWindow {
		t.Errorf("mean %v in a window that ends at %v", w.Mean, w.Peak)
	}
	total, _ := a.Total(at)
	if want := at - time.Second - 5*msec; total.Span != want {
		t.Errorf("in all %v, want %v", total.Span, want)
	}
	a.Put(at+msec, at, 100*msec)
	if w := a.Window(at + 12*time.Second); w.Peak != 12*time.Second {
		t.Errorf("peak %v once the silence has left the window, want 12s", w.Peak)
	}
}

func TestTimeOfUnknownAgeIsNotCounted(t *testing.T) {
	var a History
	if s := a.Window(time.Second); s.Span != 0 {
		t.Errorf("got %+v before the first frame", s)
	}
	a.Lapse(time.Second, 100*msec)
	if _, ok := a.Now(2 * time.Second); ok {
		t.Error("the age of a frame of unknown capture time is known")
	}
	a.Put(3*time.Second, 3*time.Second-10*msec, 100*msec)
	s, _ := a.Total(3*time.Second + 20*msec)
	if want := (Stat{Span: 20 * msec, Mean: 20 * msec, Peak: 30 * msec}); s.Span != want.Span || s.Mean != want.Mean || s.Peak != want.Peak {
		t.Errorf("got %+v, want as in %+v", s, want)
	}
	a.Lapse(4200*msec, 100*msec)
	a.Learn(4200*msec - 50*msec)
	if age, ok := a.Now(4200*msec + 50*msec); !ok || age != 100*msec {
		t.Errorf("age %v, %v after it was learnt, want 100ms", age, ok)
	}
	if s, _ := a.Total(4200*msec + 50*msec); s.Span != 1250*msec {
		t.Errorf("%v counted, want 1.25s: the time before it was learnt as well", s.Span)
	}
	a.Put(5*time.Second, 6*time.Second, 100*msec)
	if age, _ := a.Now(5*time.Second + 20*msec); age != 20*msec {
		t.Errorf("age %v, 20ms after a put, of a frame that was captured after it was put", age)
	}
}

func TestAgeWatchesAreIndependent(t *testing.T) {
	var a History
	a.Put(time.Second, time.Second-5*msec, 100*msec)
	w, other := a.Watch(1500*msec), a.Watch(1600*msec)
	a.Put(2*time.Second, 2*time.Second-5*msec, 100*msec)
	got := a.End(w, 2100*msec)
	if got.Span != 600*msec || got.Peak != 1005*msec || !near(got.P99, 999*msec) {
		t.Errorf("got %+v, want 600ms with a peak of 1.005s", got)
	}
	a.Put(3*time.Second, 3*time.Second-5*msec, 100*msec)
	if s := w.ages.span; s != 600*msec {
		t.Errorf("%v after its end, want 600ms", s)
	}
	if got := a.End(other, 3*time.Second); got.Span != 1400*msec {
		t.Errorf("the other one: %v, want 1.4s", got.Span)
	}
}

func TestRecentAgeCoversTimeSinceLastCall(t *testing.T) {
	var a History
	if s := a.Lately(time.Second); s != (Stat{}) {
		t.Errorf("before the first frame: got %+v, want nothing", s)
	}
	a.Put(time.Second, time.Second-5*msec, 8*msec)
	a.Put(time.Second+10*msec, time.Second+5*msec, 8*msec)
	for _, c := range []struct {
		at   time.Duration
		want Stat
	}{
		{time.Second + 20*msec, Stat{Span: 20 * msec, Mean: 10 * msec, Peak: 15 * msec, Over: 14 * msec}},
		{time.Second + 30*msec, Stat{Span: 10 * msec, Mean: 20 * msec, Peak: 25 * msec, Over: 10 * msec}},
		{time.Second + 30*msec, Stat{}},
	} {
		got := a.Lately(c.at)
		if got.Mean = got.Mean.Round(time.Microsecond); got != c.want {
			t.Errorf("at %v: got %+v, want %+v", c.at, got, c.want)
		}
	}
}

func TestHistoryPutDoesNotAllocate(t *testing.T) {
	var a History
	now, i := time.Duration(0), 0
	put := func() {
		i++
		now += 5 * msec
		a.Put(now, now-msec-time.Duration(i%97)*20*time.Microsecond, 4*msec)
	}
	for range 5000 {
		put()
	}
	if n := testing.AllocsPerRun(5000, put); n != 0 {
		t.Errorf("%v allocations per put", n)
	}
}

func BenchmarkHistory(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var jitter [1024]time.Duration
	for i := range jitter {
		jitter[i] = time.Duration(r.ExpFloat64() * float64(msec))
	}
	for _, period := range []time.Duration{msec, 5 * msec} {
		var a History
		now := time.Second
		for i := range 20_000 {
			now += period
			a.Put(now+jitter[i%1024]/2, now-jitter[i%1024], 10*msec)
		}
		b.Run("put/"+period.String(), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				now += period
				a.Put(now+jitter[i%1024]/2, now-jitter[i%1024], 10*msec)
			}
		})
		b.Run("look/"+period.String(), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				a.Window(now)
				a.Total(now)
			}
		})
	}
}

func TestWindowIsIndependentOfQueryRate(t *testing.T) {
	replay := func(until time.Duration, asked func(*History, time.Duration)) Stat {
		var a History
		random := rand.New(rand.NewPCG(1, 2))
		for at := time.Duration(0); at < until; at += time.Duration(random.IntN(int(40 * time.Millisecond))) {
			a.Put(at, at-time.Duration(random.IntN(int(20*time.Millisecond))), 15*time.Millisecond)
			asked(&a, at)
		}
		return a.Window(until)
	}
	for until := time.Second; until < 40*time.Second; until += 1300 * time.Millisecond {
		seldom := replay(until, func(*History, time.Duration) {})
		often := replay(until, func(a *History, at time.Duration) { a.Window(at) })
		at := time.Duration(0)
		sometimes := replay(until, func(a *History, now time.Duration) {
			if now-at > 3100*time.Millisecond {
				at = now
				a.Window(now)
			}
		})
		for _, got := range []Stat{often, sometimes} {
			if got.Mean -= seldom.Mean; got.Mean.Abs() > time.Nanosecond {
				t.Errorf("after %v: the mean is off by %v", until, got.Mean)
			}
			if got.Mean = seldom.Mean; got != seldom {
				t.Errorf("after %v: got %+v, want %+v", until, got, seldom)
			}
		}
	}
}
