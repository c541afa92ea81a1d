package bridge

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// TestReportedAgesMatchReader compares the ages that the node reports with those that a program
// measures. The program looks at the mirror all the time and uses the stamps in its frames. The
// link is good, lossy, or has an outage.
func TestReportedAgesMatchReader(t *testing.T) {
	for _, c := range []struct {
		name, change, back string
		mode               rule.Mode
	}{
		{name: "good"},
		{name: "lossy", change: "loss=20%", back: "loss=0%"},
		{name: "outage", change: "cut", back: "up"},
		{name: "every", mode: rule.Every},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot := w.host("robot", wire10ms)
				imu := robot.channel("imu", 64, 64)
				robot.run(Config{})
				qos := rule.QoS{Budget: 18 * time.Millisecond, Mode: c.mode}
				pc := w.host("pc", wire10ms).run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu", QoS: qos}}}, robot)
				w.within(2*time.Second, "live", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
				compareAges(t, w, imu, pc, [2]string{c.change, c.back})
			})
		})
	}
}

func compareAges(t *testing.T, w *world, imu *channel, pc *host, changes [2]string) {
	for i := range uint64(100) { // synchronizes the link's clock
		imu.put(i+1, 64)
		time.Sleep(10 * time.Millisecond)
	}
	r := openAgeReader(t, pc.dir, "robot.imu")
	defer r.ch.Close()
	begin, step := time.Now(), 241*time.Microsecond
	end, number := 14*time.Second, uint64(100)
	for at := time.Duration(0); at < end; at += step {
		time.Sleep(time.Until(begin.Add(at)))
		if at/(7*time.Millisecond) != (at-step)/(7*time.Millisecond) {
			number++
			imu.put(number, 64)
		}
		for i, text := range changes {
			if when := time.Duration(6+3*i) * second; text != "" && at >= when && at-step < when {
				if err := w.net.Change("", text); err != nil {
					t.Fatal(err)
				}
			}
		}
		r.sample(begin, at)
	}
	m := pc.mirror("robot.imu")
	got, over := m.Age.Window, 0.0
	samples := cut(r.ages, window{from: end - time.Duration(got.WindowS*1e9), to: end}, step)
	want := ageStat(samples)
	for _, v := range samples {
		if v > 18+7 { // past the budget at the latest 7 ms later, when the next frame is due
			over += step.Seconds() / got.WindowS
		}
	}
	const within = 0.5 // equal delays in both directions give a small clock uncertainty
	for _, c := range []struct {
		what            string
		got, want, most float64
	}{
		{"mean", got.MeanMs, want.mean, within},
		{"p99", got.P99Ms, want.p99, 1 + want.p99/100}, // there are few high ages, so one more or less in the window moves the percentile
		{"peak", got.PeakMs, want.max, within},
		{"age now", *m.AgeMs, r.ages[len(r.ages)-1], within},
		{"share over budget", got.OverBudget, over, 0.03},
	} {
		if math.Abs(c.got-c.want) > c.most {
			t.Errorf("%s: got %.3f, a reader %.3f: more than %.3f apart", c.what, c.got, c.want, c.most)
		}
	}
	if got.WindowS < 10 || got.WindowS > 11.1 {
		t.Errorf("a window of %v s, want 10 to 11", got.WindowS)
	}
}

func TestNodeAgeMeasuresWindow(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		imu := robot.channel("imu", 16, 64)
		if _, err := pc.node.Age(context.Background(), "robot.legs", second); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("missing mirror: got %v, want %v", err, fs.ErrNotExist)
		}
		time.Sleep(5 * time.Second)
		stop := time.Now().Add(20 * time.Second)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := uint64(1); time.Now().Before(stop); i++ {
				imu.put(i, 64)
				time.Sleep(20 * time.Millisecond)
			}
		}()
		time.Sleep(5 * time.Second)
		r, err := pc.node.Age(context.Background(), "robot.imu", 2*second)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Window; math.Abs(got.WindowS-2) > 0.001 || math.Abs(got.MeanMs-20) > 1+r.UncertaintyMs {
			t.Errorf("got %+v, want a mean of 20 ms (10 ms of way and half a period) over 2 s", got)
		}
		if r.Host != "robot" || r.Channel != "imu" || r.Name != "robot.imu" || r.BudgetMs != 100 {
			t.Errorf("got %+v", r)
		}
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(second, cancel)
		if _, err := pc.node.Age(ctx, "robot.imu", time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		<-done
	})
}

// TestAgesSinceLastMatchStatus checks that AgesSinceLast and Status have the same
// ages, and that StatusNow has everything else.
func TestAgesSinceLastMatchStatus(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		imu := robot.channel("imu", 64, 64)
		robot.run(Config{})
		qos := rule.QoS{Deadline: 500 * time.Millisecond}
		pc := w.host("pc", wire10ms).run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu", QoS: qos}}}, robot)
		w.within(2*time.Second, "live", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
		number := uint64(0)
		feed := func(during time.Duration) status.AgeLately {
			for range during / (10 * time.Millisecond) {
				number++
				imu.put(number, 64)
				time.Sleep(10 * time.Millisecond)
			}
			list := pc.node.AgesSinceLast()
			if len(list) != 1 {
				t.Fatalf("got %v, want one mirror", list)
			}
			return list[0]
		}
		feed(2 * time.Second)
		for range 12 {
			feed(time.Second)
		}
		got := feed(time.Second)
		synctest.Wait() // a frame arrives at this very moment
		shown, glance := pc.node.Status().Mirrors[0], pc.node.StatusNow().Mirrors[0]
		if want := shown.Age.Window; math.Abs(got.MeanMs-want.MeanMs) > 0.1 || math.Abs(got.PeakMs-want.PeakMs) > 1 || got.State != status.MirrorLive || !got.Known {
			t.Errorf("got %+v, want about %+v", got, *want)
		}
		if shown.Age = nil; !reflect.DeepEqual(glance, shown) {
			t.Errorf("StatusNow: got %+v, want %+v", glance, shown)
		}
		time.Sleep(time.Second)
		if got := feed(0); got.State != status.MirrorStale || got.PeakMs < 1000 {
			t.Errorf("after a second without a frame: got %+v, want a stale mirror more than a second old", got)
		}
		pc.stop()
		if pc.node.Alive() {
			t.Error("got Alive() = true for an ended node, want false")
		}
	})
}
