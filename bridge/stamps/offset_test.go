package stamps

import (
	"math/rand/v2"
	"testing"
	"time"

	"achbridge/bridge/clock"
)

const ms = time.Millisecond

// path simulates two hosts whose clocks drift apart, and the exchanges from which our host estimates the offset.
type path struct {
	ahead     time.Duration // our clock minus the origin's at time 0
	drift     time.Duration // speed of our clock minus the origin's, ppm
	slept     time.Duration // for how long the origin was suspended
	estimator clock.Estimator
	boot      byte
}

// truth returns the true offset at our time now.
func (p *path) truth(now time.Duration) time.Duration { return p.ahead + p.slept + now*p.drift/1e6 }

// exchange records an exchange that begins at now. Its two packets take there and back.
func (p *path) exchange(now, there, back time.Duration) {
	arrived := now + there - p.truth(now+there)
	p.estimator.Sample(now, arrived, arrived, now+there+back)
}

func (p *path) estimate(now time.Duration) Estimate {
	offset, uncertainty, ok := p.estimator.Offset(now)
	return Estimate{Now: now, Offset: -offset, Error: uncertainty, IsKnown: ok, Suspended: p.estimator.KnownAt(), Boot: [16]byte{p.boot}}
}

// follower is an Offset whose promises are checked at each step.
type follower struct {
	Offset
	t                    *testing.T
	before               time.Duration
	beforeErr, beforeNow time.Duration
	isKnown              bool
	steps                []time.Duration
}

func (f *follower) follow(p *path, now time.Duration) {
	f.t.Helper()
	d, err, step, ok := f.Follow(p.estimate(now))
	if !ok {
		f.isKnown = false
		return
	}
	if wrong := (d - p.truth(now)).Abs(); wrong > err {
		f.t.Fatalf("at %v: the offset is wrong by %v, and the error is %v", now, wrong, err)
	}
	most := (now-f.beforeNow)/followRate + 1
	switch {
	case step != 0:
		f.steps = append(f.steps, step)
	case f.isKnown && (d-f.before).Abs() > most:
		f.t.Fatalf("at %v: the offset moved by %v in %v without a step", now, d-f.before, now-f.beforeNow)
	case f.isKnown && f.beforeErr-err > most:
		f.t.Fatalf("at %v: the error fell by %v in %v", now, f.beforeErr-err, now-f.beforeNow)
	}
	f.before, f.beforeErr, f.beforeNow, f.isKnown = d, err, now, true
}

func TestOffsetFollowsDriftForAnHour(t *testing.T) {
	for _, drift := range []time.Duration{-100, 100} {
		random := rand.New(rand.NewPCG(1, uint64(drift)))
		p, f := &path{ahead: -tenDays, drift: drift}, &follower{t: t}
		delay := func() time.Duration { return 2*ms + time.Duration(random.ExpFloat64()*float64(2*ms)) }
		for now := time.Second; now < time.Hour; now += 10 * ms {
			if now%(500*ms) == 0 {
				p.exchange(now-10*ms, delay(), delay())
			}
			f.follow(p, now)
		}
		if f.steps != nil || f.err > 10*ms {
			t.Errorf("drift %d ppm: steps %v, error %v, want none, and 10ms at most", drift, f.steps, f.err)
		}
	}
}

func TestOffsetRecoversFromABadFirstSample(t *testing.T) {
	for _, c := range []struct {
		wrong time.Duration
		steps int
	}{{40 * ms, 0}, {60 * ms, 1}} {
		p, f := &path{ahead: tenDays}, &follower{t: t}
		p.exchange(time.Second-2*c.wrong-ms, 2*c.wrong, 0)
		f.follow(p, time.Second)
		if f.err < c.wrong {
			t.Fatalf("wrong by %v: the error is %v", c.wrong, f.err)
		}
		for now := time.Second + ms; now < 3*time.Minute; now += ms {
			if now%(500*ms) == 0 {
				p.exchange(now-2*ms, ms, ms)
			}
			f.follow(p, now)
		}
		if len(f.steps) != c.steps || (f.before-p.truth(f.beforeNow)).Abs() > ms || f.err > 2*ms {
			t.Errorf("wrong by %v: steps %v, then wrong by %v with error %v", c.wrong, f.steps, f.before-p.truth(f.beforeNow), f.err)
		}
	}
}

func TestOffsetStaysOnASlowPath(t *testing.T) {
	p, f := &path{ahead: tenDays}, &follower{t: t}
	random := rand.New(rand.NewPCG(3, 4))
	for now := time.Second; now < 10*time.Minute; now += 10 * ms {
		if now%(500*ms) == 0 { // half of the round trip exceeds stepError
			p.exchange(now-400*ms, 120*ms+time.Duration(random.Int64N(int64(100*ms))), 60*ms)
		}
		f.follow(p, now)
	}
	if f.steps != nil {
		t.Errorf("steps %v though no estimate ruled the offset out", f.steps)
	}
}

func TestOffsetStepsAfterASuspension(t *testing.T) {
	t.Run("of the origin", func(t *testing.T) {
		p, f := &path{ahead: tenDays}, &follower{t: t}
		p.exchange(time.Second, ms, ms)
		f.follow(p, 2*time.Second)
		p.slept = 5 * time.Second
		p.exchange(3*time.Second, ms, ms)
		f.follow(p, 4*time.Second)
		if len(f.steps) != 1 || (f.steps[0]-p.slept).Abs() > 2*ms {
			t.Errorf("steps %v, want one of %v", f.steps, p.slept)
		}
	})
	t.Run("of this host", func(t *testing.T) {
		p, f := &path{ahead: tenDays}, &follower{t: t}
		p.exchange(time.Second, ms, ms)
		f.follow(p, 2*time.Second)
		old := p.estimate(3 * time.Second)
		p.estimator.Suspended(3*time.Second, time.Hour)
		p.ahead -= time.Hour // our clock stood still
		if _, _, _, ok := f.Follow(p.estimate(3 * time.Second)); ok {
			t.Error("the offset of before the suspension is used")
		}
		p.exchange(4*time.Second, ms, ms)
		f.follow(p, 5*time.Second)
		if len(f.steps) != 1 || (f.steps[0]+time.Hour).Abs() > 2*ms {
			t.Errorf("steps %v, want one of %v", f.steps, -time.Hour)
		}
		if d, _, step, _ := f.Follow(old); step != 0 || (d-f.before).Abs() > ms {
			t.Errorf("an estimate of before the suspension moves the offset by %v", d-f.before)
		}
	})
}

func TestOffsetIsUnknownBeforeTheFirstEstimate(t *testing.T) {
	p, f := &path{ahead: tenDays}, &Offset{}
	if _, _, _, ok := f.Follow(p.estimate(time.Second)); ok {
		t.Fatal("known before the first estimate")
	}
	p.exchange(time.Second, ms, ms)
	_, err, _, ok := f.Follow(p.estimate(2 * time.Second))
	if !ok {
		t.Fatal("unknown after the first estimate")
	}
	d, later, step, ok := f.Follow(p.estimate(time.Minute)) // no sample for ten seconds
	if !ok || step != 0 || later <= err || (d-tenDays).Abs() > later {
		t.Errorf("Follow without an estimate = %v ± %v, %v, want a larger error than %v", d, later, ok, err)
	}
	p.boot = 1
	if _, _, _, ok := f.Follow(p.estimate(time.Minute)); ok {
		t.Error("the offset of another boot is used")
	}
	p.ahead = 0
	p.estimator = clock.Estimator{}
	p.exchange(time.Minute, ms, ms)
	if _, _, step, ok := f.Follow(p.estimate(time.Minute + time.Second)); !ok || (step+tenDays).Abs() > 2*ms {
		t.Errorf("another boot: step %v, %v, want %v", step, ok, -tenDays)
	}
}

// A relay that wakes from a suspension sends its new offset some time before or after the clock of its link steps.
func TestOffsetDoubtsRelayedEstimates(t *testing.T) {
	relayed := func(now, offset time.Duration) Estimate {
		return Estimate{Now: now, Offset: offset, Error: ms, IsKnown: true, IsRelayed: true}
	}
	taken := func() *Offset {
		o := &Offset{}
		if _, _, _, ok := o.Follow(relayed(time.Second, tenDays)); !ok {
			t.Fatal("the first relayed estimate is not taken")
		}
		return o
	}
	t.Run("for a moment", func(t *testing.T) {
		o := taken()
		if _, _, _, ok := o.Follow(relayed(2*time.Second, tenDays+time.Hour)); ok {
			t.Error("known though the estimate contradicts the offset")
		}
		if d, _, step, ok := o.Follow(relayed(3*time.Second, tenDays)); !ok || step != 0 || d != tenDays {
			t.Errorf("Follow = %v, step %v, %v, want the offset of before", d, step, ok)
		}
	})
	t.Run("for good", func(t *testing.T) {
		o, steps := taken(), 0
		for now := 2 * time.Second; now <= 10*time.Second; now += 100 * ms {
			d, _, step, ok := o.Follow(relayed(now, tenDays+time.Hour))
			if step != 0 {
				steps++
			}
			if late := now >= 2*time.Second+confirmTime; ok != late || late && d != tenDays+time.Hour {
				t.Fatalf("at %v: %v, %v", now, d, ok)
			}
		}
		if steps != 1 {
			t.Errorf("%d steps, want 1", steps)
		}
	})
	t.Run("beside direct ones", func(t *testing.T) {
		o := taken()
		direct := relayed(2*time.Second, tenDays)
		direct.IsRelayed = false
		o.Follow(direct)
		for now := 2 * time.Second; now < 2*time.Second+directFor; now += 100 * ms {
			if d, err, step, ok := o.Follow(relayed(now, tenDays+time.Hour)); !ok || step != 0 || d != tenDays || err < ms || err > ms+now/followRate {
				t.Fatalf("at %v: %v ± %v, step %v, %v, want the direct offset", now, d, err, step, ok)
			}
		}
	})
}
