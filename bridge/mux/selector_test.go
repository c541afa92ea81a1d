package mux

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// plainMux is a mux that keeps all frames and decides only from them.
type plainMux struct {
	hold, needsSafe time.Duration // needsSafe counts the safe frames that are due: 0 or 1
	catchUp         bool
	frames          [][]plainFrame // in order of arrival, by input
	sent            map[plainFrame]bool
}

// plainFrame is a frame with the time of its arrival and the time before which it is live.
type plainFrame struct {
	input     int
	at, until time.Duration
	isOld     bool // it was there before the mux began
	isMissed  bool // another input won when it arrived
}

// isLive reports whether input i may win at now: its newest frame is live, and if the input had expired before, it has
// been live for hold.
func (p *plainMux) isLive(i int, now time.Duration) bool {
	list := p.frames[i]
	if len(list) == 0 || now >= list[len(list)-1].until {
		return false
	}
	first := len(list) - 1 // begins the frames without a gap
	for first > 0 && list[first-1].until > list[first].at {
		first--
	}
	hasExpired := false
	for _, f := range list[:first] {
		hasExpired = hasExpired || f.until > f.at
	}
	return !hasExpired || now-list[first].at >= p.hold
}

func (p *plainMux) decide(now time.Duration) (winner int, put *plainFrame, safe bool) {
	winner = none
	for i := range p.frames {
		if winner == none && p.isLive(i, now) {
			winner = i
		}
	}
	for i, list := range p.frames {
		if len(list) == 0 {
			continue
		}
		newest := &list[len(list)-1]
		if i == winner && !newest.isOld && !newest.isMissed && !p.sent[*newest] {
			put = newest
		} else if i != winner && !p.catchUp {
			newest.isMissed = true
		}
	}
	return winner, put, winner == none && p.needsSafe > 0
}

// Random schedules of three inputs, whose frames arrive, expire and are put at random times.
func TestSelectorDecidesLikePlainMux(t *testing.T) {
	for seed := range uint64(100_000) {
		if text := differs(seed); text != "" {
			t.Fatalf("schedule %d: %s", seed, text)
		}
	}
}

// differs runs one schedule and describes the first difference; it returns "" if there is none.
func differs(seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 1))
	const inputs = 3
	hold, catchUp, needsSafe := time.Duration(random.IntN(3))*8, random.IntN(2) == 0, random.IntN(2) == 0
	s := newSelector(inputs, hold, catchUp)
	p := &plainMux{hold: hold, catchUp: catchUp, frames: make([][]plainFrame, inputs), sent: map[plainFrame]bool{}}
	if s.needsSafe = needsSafe; needsSafe {
		p.needsSafe = 1
	}
	now := time.Duration(1)
	for step := range 40 {
		now += time.Duration(random.IntN(6))
		for i := range inputs {
			if random.IntN(3) != 0 || len(p.frames[i]) > 0 && p.frames[i][len(p.frames[i])-1].at == now {
				continue
			}
			f := plainFrame{input: i, at: now, until: now + time.Duration(random.IntN(14)-1), isOld: step == 0}
			p.frames[i] = append(p.frames[i], f)
			if f.isOld {
				s.found(i, now, f.until)
			} else {
				s.frame(i, now, f.until)
			}
		}
		got := s.decide(now)
		winner, put, safe := p.decide(now)
		if got.winner != winner || (got.put != none) != (put != nil) || put != nil && got.put != put.input || got.safe != safe {
			return fmt.Sprintf("step %d at %d: got %+v, want winner %d, put %+v, safe %v", step, now, got, winner, put, safe)
		}
		if next := got.next; next != 0 && next <= now {
			return fmt.Sprintf("step %d at %d: decides again at %d", step, now, next)
		}
		if text := changesBefore(p, now, got); text != "" {
			return fmt.Sprintf("step %d at %d: %s", step, now, text)
		}
		if random.IntN(4) == 0 {
			continue // the output is busy
		}
		if put != nil {
			p.sent[*put], p.needsSafe = true, 1
		} else if safe {
			p.needsSafe = 0
		}
		if put != nil || safe {
			s.sent(got)
		}
	}
	return ""
}

// changesBefore describes a change of the winner that comes before the time at which the selector decides again.
func changesBefore(p *plainMux, now time.Duration, d decision) string {
	for at := now; at < now+40 && (d.next == 0 || at < d.next); at++ {
		winner := none
		for i := range p.frames {
			if winner == none && p.isLive(i, at) {
				winner = i
			}
		}
		if winner != d.winner {
			return fmt.Sprintf("at %d input %d wins in place of %d, but the selector waits until %d", at, winner, d.winner, d.next)
		}
	}
	return ""
}

// The clock stops while the host is suspended, so that an older frame would seem to be live.
func TestSuspensionExpiresInputs(t *testing.T) {
	s := newSelector(2, 0, true)
	s.frame(0, 1, 100)
	s.frame(1, 1, 100)
	s.suspended()
	if d := s.decide(2); d.winner != none || d.put != none || d.next != 0 {
		t.Errorf("after the suspension: got %+v, want no winner", d)
	}
	s.frame(1, 3, 100)
	if d := s.decide(3); d.winner != 1 || d.put != 1 {
		t.Errorf("after a frame of input 1: got %+v, want it to win", d)
	}
}

// Facts of sns-mplex (rules 3 to 6 of its specification).
func TestSelectorFollowsSnsMplex(t *testing.T) {
	s := newSelector(2, 0, false)
	put := func(now time.Duration) int {
		d := s.decide(now)
		s.sent(d)
		return d.put
	}
	s.frame(1, 1, 100)
	if got := put(1); got != 1 {
		t.Errorf("the only live input: put %d, want 1", got)
	}
	s.frame(0, 2, 10)
	s.frame(1, 2, 100)
	if got := put(2); got != 0 {
		t.Errorf("both live: put %d, want 0", got)
	}
	s.frame(1, 3, 100)
	if got := put(3); got != none {
		t.Errorf("a live but silent higher input: put %d, want none", got)
	}
	if got := put(10); got != none {
		t.Errorf("the higher input has expired: put %d, want none, since what was shadowed is lost", got)
	}
	s.frame(1, 11, 100)
	if got := put(11); got != 1 {
		t.Errorf("the next frame of the lower input: put %d, want 1", got)
	}
	s.frame(0, 12, 12)
	if d := s.decide(12); d.winner != 1 || d.put != none {
		t.Errorf("a frame that had expired at its arrival: got %+v, want 1 to win", d)
	}
}
