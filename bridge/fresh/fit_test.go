package fresh

import (
	"testing"
	"time"
)

// fitLink is a link that carries one frame after the other, and a publisher of them.
type fitLink struct {
	rate   float64 // bytes a second
	delay  time.Duration
	size   int
	period time.Duration
	budget time.Duration
	now    time.Duration
	fit    *Fit // nil: frames leave as soon as the link takes them
}

// run lets frames leave for some time, and returns how many did and how many of those
// arrived in time. One that is past its budget is given up.
func (l *fitLink) run(length time.Duration) (left, inTime int) {
	const tick = time.Millisecond
	loaded, slot := l.now/l.period, l.now
	for end := l.now + length; l.now < end; {
		newest := l.now / l.period
		captured := newest * l.period
		age := l.now - captured
		if newest == loaded || l.fit != nil && (l.now < slot || l.fit.Waits(age, l.budget, l.period)) {
			l.now += tick
			continue
		}
		left++
		loaded = newest
		t := Try{Left: l.now, Captured: captured, Budget: l.budget, Period: l.period, Size: l.size, Carried: l.size}
		takes := time.Duration(float64(l.size)/l.rate*float64(time.Second)) + l.delay
		if t.Arrived = l.now + takes; !t.inTime() {
			t.Arrived = 0
			t.Known = captured + l.budget + tick
			t.Carried = max(0, int(l.rate*(t.Known-t.Left-2*l.delay).Seconds()))
		} else {
			t.Known = t.Arrived + l.delay
			inTime++
		}
		if l.fit != nil {
			l.fit.Note(t)
			slot = l.now + l.fit.Interval()
		}
		l.now = t.Known
	}
	return left, inTime
}

// cameraOver is a camera of 30 frames a second over so many Mbit/s.
func cameraOver(mbit float64, size int, fit *Fit) *fitLink {
	return &fitLink{rate: mbit / 8 * 1e6, delay: 10 * time.Millisecond, size: size, period: time.Second / 30, budget: 200 * time.Millisecond, fit: fit}
}

func TestFitHasFramesLeaveYoungEnoughToArriveInTime(t *testing.T) {
	without := cameraOver(10, 220_000, nil) // 186 ms for a frame on its way
	without.now = 15 * time.Millisecond
	left, drop := without.run(20 * time.Second)
	with := cameraOver(10, 220_000, &Fit{})
	with.now = 15 * time.Millisecond
	tried, inTime := with.run(20 * time.Second)
	t.Logf("drop: %d of %d in time; rate: %d of %d", drop, left, inTime, tried)
	if inTime < tried-3 || inTime < 75 || inTime <= drop {
		t.Errorf("got %d of %d frames in time, without fit %d of %d; want all but three, 75 at least, and more than without", inTime, tried, drop, left)
	}
}

func TestFitFollowsTheLinkBothWays(t *testing.T) {
	l := cameraOver(10, 105_000, &Fit{})
	for _, step := range []struct {
		mbit        float64
		least, most int // frames in time of 10 s, after 3 s
	}{{10, 85, 110}, {5, 44, 55}, {20, 150, 210}, {5, 44, 55}, {10, 85, 110}} {
		l.rate = step.mbit / 8 * 1e6
		l.run(3 * time.Second)
		left, inTime := l.run(10 * time.Second)
		t.Logf("%v Mbit/s: %d of %d in time, interval %v", step.mbit, inTime, left, l.fit.Interval())
		if inTime < step.least || inTime > step.most || inTime < left-1 {
			t.Errorf("%v Mbit/s: got %d of %d frames in time, want %d to %d, and all but one", step.mbit, inTime, left, step.least, step.most)
		}
	}
}

func TestFitComesBackSoonAfterALinkThatCarriedNothingInTime(t *testing.T) {
	l := cameraOver(1, 200_000, &Fit{})
	if left, inTime := l.run(20 * time.Second); inTime != 0 || left > 50 {
		t.Errorf("got %d of %d frames in time, want none, and few that leave", inTime, left)
	}
	l.rate = 20 / 8.0 * 1e6
	left, inTime := l.run(3 * time.Second)
	t.Logf("3 s after: %d of %d", inTime, left)
	if inTime < 10 {
		t.Errorf("got %d frames in time in 3 s after the link was fast again, want 10", inTime)
	}
}

func TestFitChangesNothingWhileFramesArriveInTime(t *testing.T) {
	l := cameraOver(100, 200_000, &Fit{})
	if left, inTime := l.run(5 * time.Second); inTime != left || l.fit.Interval() != 0 {
		t.Errorf("got %d of %d frames in time and an interval of %v, want all and none", inTime, left, l.fit.Interval())
	}
}

func TestFitLearnsNothingOfASilentPath(t *testing.T) {
	var f Fit
	f.Note(Try{Left: time.Second, Known: 2 * time.Second, Captured: time.Second, Budget: 100 * time.Millisecond, Size: 1000})
	if f.Interval() != 0 || f.Takes() != 0 {
		t.Errorf("got an interval of %v, %v a frame; want nothing", f.Interval(), f.Takes())
	}
}

func TestFitPassesOverOnlyWhatIsFollowedByAYoungerFrame(t *testing.T) {
	f := Fit{interval: 200 * time.Millisecond, way: 190 * time.Millisecond}
	const budget, period = 200 * time.Millisecond, 33 * time.Millisecond
	for age, want := range map[time.Duration]bool{
		0: false, 5 * time.Millisecond: false, 20 * time.Millisecond: true, 60 * time.Millisecond: true,
		70 * time.Millisecond: false, // nothing follows it
		time.Second:           false,
	} {
		if got := f.Waits(age, budget, period); got != want {
			t.Errorf("a frame of %v waits: got %v, want %v", age, got, want)
		}
	}
}

func TestFitTriesSeldomToGoWithoutStrongerCompression(t *testing.T) {
	var f Fit
	note := func(inTime bool) {
		try := Try{Left: time.Second, Captured: time.Second, Known: 1100 * time.Millisecond, Arrived: 1090 * time.Millisecond, Budget: time.Second, Size: 100, Carried: 100}
		if !inTime {
			try.Budget = 1
		}
		f.Note(try)
	}
	late := 0
	for range 10_000 { // frames arrive in time as long as they are compressed more
		if !f.Tight() {
			late++
		}
		note(f.Tight())
	}
	if late > 15 {
		t.Errorf("got %d frames of 10000 too late, want 15 at most", late)
	}
	for range 2 * 1024 { // now in any case
		note(true)
	}
	if f.Tight() {
		t.Error("compresses more though frames have long been in time, want it left out")
	}
}
