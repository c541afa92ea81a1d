package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/rule"
	"achbridge/bridge/send"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// goesOn puts a frame every period until the test ends or stop is called.
func (f *flow) goesOn(period time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			f.put()
			time.Sleep(period)
		}
	}()
	stop = func() { cancel(); <-ended }
	f.t.Cleanup(stop)
	return stop
}

// meanAge returns the average age of a mirror over the duration of a load test.
func (f *flow) meanAge() float64 {
	r, err := f.pc.node.Age(f.t.Context(), flowName, loadTime)
	if err != nil || r.Window == nil {
		f.t.Fatalf("age: %v, %+v", err, r)
	}
	return r.Window.MeanMs
}

// load runs a load test of pc, and returns the average age of a mirror during the test.
func (f *flow) load(way Direction) (r status.Load, age float64) {
	ages := make(chan float64)
	go func() { ages <- f.meanAge() }()
	r, err := f.pc.node.LoadTest(f.t.Context(), "robot", way)
	if err != nil {
		f.t.Fatalf("load test: %v", err)
	}
	return r, <-ages
}

func TestLoadTestMeasuresLinkRate(t *testing.T) {
	for rate, slower := range map[float64]float64{1: 2, 5: 1.5, 20: 1.5} {
		for way, name := range map[Direction]string{Down: "down", Up: "up"} {
			t.Run(fmt.Sprintf("%v Mbit %s", rate, name), func(t *testing.T) {
				inWorld(t, func(w *world) {
					f := w.flow(fmt.Sprintf("delay=5ms,rate=%vmbit,queue=64KiB", rate), rule.QoS{}, 64)
					f.goesOn(10 * milli)
					time.Sleep(5 * second)
					before := f.meanAge()
					r, age := f.load(way)
					carries := []float64{r.Mbit}
					for range 4 { // one test may stop probing too early by chance; a host accepts three tests a minute
						time.Sleep(loadEvery / 3)
						again, err := f.pc.node.LoadTest(f.t.Context(), "robot", way)
						if err != nil {
							t.Fatal(err)
						}
						carries = append(carries, again.Mbit)
					}
					t.Logf("carries %.3f Mbit/s of %v, %.3f of the first are load; age %.2f ms before, %.2f beside it", carries, rate, r.LoadMbit, before, age)
					slices.Sort(carries)
					if mean := (carries[1] + carries[2] + carries[3]) / 3; math.Abs(mean/rate-1) > 0.1 {
						t.Errorf("five tests carry %.3f Mbit/s: want %v within 10 %% without the least and the largest", carries, rate)
					}
					if age > slower*before {
						t.Errorf("the mirror beside it was %.2f ms old, and %.2f ms before: want at most %v times", age, before, slower)
					}
					time.Sleep(second)
					if after := f.meanAge(); after > 1.1*before {
						t.Errorf("the mirror is %.2f ms old afterwards, want %.2f ms as before", after, before)
					}
				})
			})
		}
	}
}

func TestLoadTestMatchesMirrorOverLossyLink(t *testing.T) {
	for _, rate := range []float64{1, 5, 20} {
		t.Run(fmt.Sprintf("%v Mbit", rate), func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := w.flow(fmt.Sprintf("delay=5ms,rate=%vmbit,queue=64KiB,loss=2%%", rate), rule.QoS{Priority: 1, Budget: time.Hour}, 30_000)
				time.Sleep(2 * second)
				stop := f.goesOn(5 * milli)
				time.Sleep(4 * second)
				before := f.pc.node.Status().Links[0]
				time.Sleep(24 * second)
				after := f.pc.node.Status().Links[0]
				stop()
				packets := float64(after.Received - before.Received)
				mirror := (float64(after.ReceivedBytes-before.ReceivedBytes) + packets*delivery.HeaderBytes) * 8 / 1e6 / 24
				var r status.Load
				const tests = 9 // the result of one test depends on its losses; three a minute are allowed
				for i := range tests {
					if i%3 == 0 {
						time.Sleep(loadEvery)
					}
					one, err := f.pc.node.LoadTest(w.t.Context(), "robot", Down)
					if err != nil {
						t.Fatal(err)
					}
					r.Mbit, r.Lost = r.Mbit+one.Mbit/tests, r.Lost+one.Lost/tests
				}
				t.Logf("load test %.3f Mbit/s with %.1f %% lost, mirror %.3f Mbit/s", r.Mbit, 100*r.Lost, mirror)
				if math.Abs(r.Mbit/mirror-1) > 0.15 {
					t.Errorf("load test: got %.3f Mbit/s, want the %.3f of a mirror, within 15 %%", r.Mbit, mirror)
				}
				if r.Lost < 0.005 || r.Lost > 0.04 {
					t.Errorf("%.2f %% were lost, want about 2 %%", 100*r.Lost)
				}
			})
		})
	}
}

// The link counts as silent from the moment when its last packets were lost.
func TestLossAtEndOfLoadTestDoesNotFailNext(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.flow("delay=5ms,rate=1mbit,queue=64KiB,loss=3%", rule.QoS{Priority: 1}, 64)
		time.Sleep(2 * second)
		first := make(chan error)
		go func() {
			_, err := f.pc.node.LoadTest(w.t.Context(), "robot", Down)
			first <- err
		}()
		time.Sleep(loadTime - 20*milli)
		f.change("loss=100%")
		time.Sleep(100 * milli)
		f.change("loss=3%")
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * milli)
		if r, err := f.pc.node.LoadTest(w.t.Context(), "robot", Down); err != nil || r.Mbit < 0.5 {
			t.Errorf("the next one carries %.3f Mbit/s, error %v; want 0.5 Mbit/s at least", r.Mbit, err)
		}
	})
}

func TestLoadTestsAreLimitedByGrantingHost(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", siegeWire).run(Config{})
		evil := w.member("evil", robot)
		answers := func() (granted int, refused []string) {
			for _, m := range messages[wire.Load](evil) {
				if m.Granted {
					granted++
				}
			}
			for _, m := range messages[wire.Refused](evil) {
				if m.Re == wire.TypeLoad {
					refused = append(refused, m.Text)
				}
			}
			return granted, refused
		}
		ask := func(id uint32, d time.Duration, want int, text string) {
			t.Helper()
			evil.say(wire.Load{ID: id, For: d})
			w.within(second, "an answer", func() bool { g, r := answers(); return g+len(r) == int(id) })
			g, refused := answers()
			if g != want || text != "" && !strings.Contains(refused[len(refused)-1], text) {
				t.Errorf("request %d: %d granted, refused with %q; want %d and %q", id, g, refused, want, text)
			}
		}
		ask(1, 3*second, 1, "")
		ask(2, 3*second, 1, "robot has a load test with evil going on")
		time.Sleep(4 * second)
		ask(3, wire.MaxLoad, 1, "robot allows 10s of load tests a minute")
		ask(4, 7*second, 2, "")
		evil.say(wire.Load{ID: 99}) // not the id of the running test
		ask(5, second, 2, "going on")
		evil.say(wire.Load{ID: 4})
		ask(6, second, 3, "")
		time.Sleep(70 * second)
		ask(7, wire.MaxLoad, 4, "")
		time.Sleep(11 * second)
		link := robot.node.Status().Links[0]
		if rate := link.SentBytes; rate > send.MostLoad+1_000_000 {
			t.Errorf("sent %d bytes, want at most %d", rate, send.MostLoad)
		}
	})
}

func TestRefusedLoadTestReportsReason(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", siegeWire).run(Config{NoLoadTest: true}), w.host("pc", siegeWire)
		pc.run(Config{}, robot)
		w.member("old", pc) // ignores unknown messages
		w.within(5*second, "links", func() bool { return len(pc.node.Status().Links) == 2 })
		why := func(n *Node, host, want string) {
			t.Helper()
			if _, err := n.LoadTest(w.t.Context(), host, Down); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		why(pc.node, "robot", "robot allows no load tests: its configuration has load_test: false")
		why(robot.node, "pc", "the configuration of this host has load_test: false")
		why(pc.node, "old", "old does not answer; its achbridge may be of another version")
		why(pc.node, "nobody", "no link to nobody")
		if _, err := pc.node.LoadTest(w.t.Context(), "nobody", Up); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no link: %v, want fs.ErrNotExist", err)
		}
	})
}

func TestPingReportsRoundTripAndLoss(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		w.within(5*second, "link", func() bool { return len(pc.node.Status().Links) == 1 })
		p, err := pc.node.Ping(w.t.Context(), "robot")
		if err != nil || p.Lost || p.RTT < 20*milli || p.RTT > 21*milli {
			t.Errorf("got %+v, %v, want 20 ms", p, err)
		}
		if !strings.Contains(p.Why, "this host uses no other") {
			t.Errorf("why %s: %q", p.Link.Transport, p.Why)
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if p, err := pc.node.Ping(w.t.Context(), "robot"); err != nil || p.Lost {
					t.Errorf("two at once: got %+v, %v", p, err)
				}
			})
		}
		both.Wait()
		w.change(robot.name, "cut")
		if p, err := pc.node.Ping(w.t.Context(), "robot"); err != nil || !p.Lost {
			t.Errorf("over a cut link: got %+v, %v, want it lost", p, err)
		}
		if _, err := pc.node.Ping(w.t.Context(), "nobody"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without a link: %v, want fs.ErrNotExist", err)
		}
	})
}
