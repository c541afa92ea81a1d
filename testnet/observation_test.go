package testnet_test

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"achbridge/testnet/await"
)

// observation collects the output of an observer on a host. When the test ends it
// checks that no view has seen an older frame after a newer one.
type observation struct {
	t     *testing.T
	host  string
	views []string
	work  sync.WaitGroup

	mu     sync.Mutex
	frames map[string][]observedFrame // frames by view
}

// observe starts an observer on a host.
func (s *site) observe(host string, views ...string) *observation {
	s.t.Helper()
	cmd := s.lab.Command(host, os.Args[0], views...)
	cmd.Env = append(os.Environ(), asObserver+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	o := &observation{t: s.t, host: host, views: views, frames: map[string][]observedFrame{}}
	o.work.Go(func() {
		for lines := json.NewDecoder(out); ; {
			var next observedFrame
			if lines.Decode(&next) != nil {
				return
			}
			o.mu.Lock()
			o.frames[next.View] = append(o.frames[next.View], next)
			o.mu.Unlock()
		}
	})
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		o.work.Wait()
		_ = cmd.Wait() // the error is that the process was killed
		o.checkOrder()
	})
	return o
}

// checkOrder fails the test for each disorder.
func (o *observation) checkOrder() {
	o.t.Helper()
	for view, list := range o.frames {
		for _, d := range disorders(list) {
			o.t.Errorf("%s: %s", view, d)
		}
	}
}

// disorders returns the places where a view has seen an older frame after a newer
// one, or the same frame twice.
func disorders(list []observedFrame) (found []string) {
	var last observedFrame
	for _, s := range list {
		switch {
		case s.Err != "":
			continue
		case s.Put < last.Put:
			found = append(found, fmt.Sprintf("went back by %v: got %+v after %+v", time.Duration(last.Put-s.Put), s, last))
		case s.Put == last.Put && s.Inode == last.Inode:
			found = append(found, fmt.Sprintf("a frame was put twice: got %+v after %+v", s, last))
		}
		last = s
	}
	return found
}

func TestObservationFindsDisorder(t *testing.T) {
	frame := func(put int64, inode uint64) observedFrame { return observedFrame{Put: put, Inode: inode} }
	for name, c := range map[string]struct {
		list []observedFrame
		want int
	}{
		"ever newer":                 {[]observedFrame{frame(1, 7), frame(2, 7), {Err: "corrupt"}, frame(5, 8)}, 0},
		"the newest in a new file":   {[]observedFrame{frame(1, 7), frame(1, 8)}, 0},
		"an older one":               {[]observedFrame{frame(1, 7), frame(3, 7), frame(2, 7), frame(4, 7)}, 1},
		"an older one in a new file": {[]observedFrame{frame(3, 7), frame(2, 8)}, 1},
		"one put twice":              {[]observedFrame{frame(1, 7), frame(2, 7), frame(2, 7)}, 1},
	} {
		if got := disorders(c.list); len(got) != c.want {
			t.Errorf("%s: got %q, want %d disorders", name, got, c.want)
		}
	}
}

// waitForFrame waits for the first frame of a view that match accepts, and returns it.
func (o *observation) waitForFrame(view, what string, match func(observedFrame) bool) (found observedFrame) {
	o.t.Helper()
	next := 0
	await.NoError(o.t, func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		list := o.frames[view]
		for ; next < len(list); next++ {
			if match(list[next]) {
				found = list[next]
				return nil
			}
		}
		if next == 0 {
			return fmt.Errorf("%s: saw nothing, want %s", view, what)
		}
		return fmt.Errorf("%s: no %s, last %+v", view, what, list[next-1])
	})
	return found
}

// waitUntilFollowing waits until all views have seen a frame that was put after a
// moment, and returns how long after it the last of them did. In the long run, more
// than limit fails the test.
func (o *observation) waitUntilFollowing(since moment, limit time.Duration, views ...string) time.Duration {
	o.t.Helper()
	var took time.Duration
	for _, view := range views {
		s := o.waitForFrame(view, "frame put since then", func(s observedFrame) bool { return s.Err == "" && s.Put > int64(since) })
		took = max(took, time.Duration(s.Time-int64(since)))
	}
	checkPromise(o.t, "following", took, limit)
	return took.Round(time.Millisecond)
}

// last returns the last frame that a view has seen.
func (o *observation) last(view string) observedFrame {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.frames[view]
	if len(list) == 0 {
		o.t.Fatalf("%s: saw nothing", view)
	}
	return list[len(list)-1]
}

// moment is a time of CLOCK_MONOTONIC, in ns, which publishers and observers share.
type moment int64

func now() moment { return moment(monotonic()) }
