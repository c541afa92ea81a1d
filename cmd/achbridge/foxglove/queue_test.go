package foxglove

import (
	"math/rand/v2"
	"testing"
	"time"
)

// In counted time, slots are offered and taken at random. No slot gets more messages than its rate allows, none waits while
// the queue has nothing else, and the one that has waited longest is first.
func TestQueueKeepsRateAndOrder(t *testing.T) {
	const period = 10 * time.Millisecond
	r := rand.New(rand.NewPCG(1, 2))
	q := queue{period: period}
	slots := make([]slot, 20)
	offeredAt, sent := map[*slot]time.Duration{}, map[*slot]int{}
	const end = 2 * time.Second
	for now := time.Duration(0); now < end; now += time.Duration(r.IntN(500)) * time.Microsecond {
		for range r.IntN(4) {
			s := &slots[r.IntN(len(slots))]
			if _, isOffered := offeredAt[s]; !isOffered {
				offeredAt[s] = max(now, s.notBefore)
			}
			q.offer(s, now)
		}
		if r.IntN(3) == 0 {
			continue
		}
		s, wait := q.next(now)
		if s == nil {
			for of, at := range offeredAt {
				if at <= now {
					t.Fatalf("at %v: got no slot, and slot %p has been due since %v", now, of, at)
				}
				if at < now+wait {
					t.Fatalf("at %v: got a wait of %v, and a slot is due at %v", now, wait, at)
				}
			}
			continue
		}
		at, isOffered := offeredAt[s]
		if !isOffered || at > now {
			t.Fatalf("at %v: got a slot that is due at %v (offered: %v)", now, at, isOffered)
		}
		for of, other := range offeredAt {
			if other < at-500*time.Microsecond && other+period < at { // slots that became due between two calls are in any order
				t.Fatalf("at %v: got the slot of %v before that of %v (%p)", now, at, other, of)
			}
		}
		delete(offeredAt, s)
		sent[s]++
	}
	for s, n := range sent {
		if most := int(end/period) + 1; n > most {
			t.Errorf("slot %p got %d messages in %v, want at most %d", s, n, end, most)
		}
	}
}

func TestRemovedSlotIsNeverTaken(t *testing.T) {
	q := queue{period: time.Second}
	var a, b, c slot
	for _, s := range []*slot{&a, &b, &c} {
		q.offer(s, 0)
	}
	q.remove(&b)
	if s, _ := q.next(0); s != &a {
		t.Errorf("got %p, want the first slot", s)
	}
	q.offer(&a, 1) // waits for its period
	q.remove(&a)
	q.offer(&a, 2)
	if s, _ := q.next(3); s != &c {
		t.Errorf("got %p, want the third slot", s)
	}
	if s, wait := q.next(10 * time.Second); s != nil || wait != 0 {
		t.Errorf("got %p, wait %v, want an empty queue", s, wait)
	}
}

func TestSlotWithoutMessageStaysDue(t *testing.T) {
	q := queue{period: time.Second}
	var s slot
	q.offer(&s, 0)
	_, _ = q.next(0)
	q.undo(&s)
	q.offer(&s, 1)
	if got, _ := q.next(1); got != &s {
		t.Errorf("got %p, want the slot, since it has sent nothing", got)
	}
}
