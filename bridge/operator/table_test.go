package operator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var thisBoot = [16]byte{1}

func holder(host string) Holder {
	h := Holder{Host: host, Boot: [16]byte{9}}
	copy(h.Node[:], host)
	return h
}

func aSecond(Lock) time.Duration { return time.Second }

func empty() Table {
	t, _ := Restore(nil, thisBoot, 0)
	return t
}

// taken returns a table in which a host has taken goal at 1 s.
func taken(t *testing.T, host string, limit time.Duration) Table {
	t.Helper()
	table := empty()
	c, err := table.Take(time.Second, Request{Channel: "goal", By: holder(host), For: limit})
	if err != nil {
		t.Fatal(err)
	}
	return table.With(c)
}

func TestOnlyForceTakesLockOfAnother(t *testing.T) {
	table := taken(t, "pc", 0)
	_, err := table.Take(2*time.Second, Request{Channel: "goal", By: holder("tablet")})
	if held, ok := errors.AsType[*HeldError](err); !ok || held.Holder.Host != "pc" {
		t.Fatalf("got %v, want that pc holds it", err)
	}
	c, err := table.Take(2*time.Second, Request{Channel: "goal", By: holder("tablet"), Force: true})
	if err != nil || !c.IsHandover() || c.After.Generation != 2 || c.Why != "tablet took it by force from pc" {
		t.Errorf("got %+v, %v, want generation 2 of tablet", c, err)
	}
	if l := table.Get("goal"); l.Holder.Host != "pc" {
		t.Errorf("got %+v, want no change before With", l)
	}
}

func TestTakingAgainChangesOnlyTheEnd(t *testing.T) {
	table := taken(t, "pc", time.Minute)
	c, err := table.Take(2*time.Second, Request{Channel: "goal", By: holder("pc"), For: time.Hour})
	if err != nil || c.IsHandover() || c.After.End != time.Hour+2*time.Second || c.After.TakenAt != time.Second {
		t.Errorf("got %+v, %v, want the same generation with another end", c, err)
	}
}

func TestCopiedImageIsNotTheHolder(t *testing.T) {
	table := taken(t, "pc", 0)
	copied := holder("pc")
	copied.Boot = [16]byte{8}
	if _, err := table.Release(2*time.Second, "goal", copied, Holder{}); err == nil {
		t.Error("a copy released the lock")
	}
	table.Received(5*time.Second, copied)
	if list := table.Expire(5*time.Second, aSecond); len(list) != 1 {
		t.Errorf("got %+v, want that packets of the copy do not count", list)
	}
	if l := table.Get("goal"); l.Right().Allows(Grant{Node: copied.Node}, 2*time.Second) {
		t.Error("a frame without the generation is allowed")
	}
}

func TestLockEndsByTimeAndSilence(t *testing.T) {
	for name, c := range map[string]struct {
		limit, receivedAt, at time.Duration
		ends                  string
		phase                 Phase
	}{
		"heard":              {0, 5 * time.Second, 5499 * time.Millisecond, "", Held},
		"quiet":              {0, 5 * time.Second, 5500 * time.Millisecond, "", InGrace},
		"silent":             {0, 5 * time.Second, 6 * time.Second, "nothing came from it for 1 s", 0},
		"before its end":     {4 * time.Second, 5 * time.Second, 5*time.Second - 1, "", Held},
		"at its end":         {4 * time.Second, 5 * time.Second, 5 * time.Second, "its time is over", 0},
		"heard in the grace": {0, 1900 * time.Millisecond, 2 * time.Second, "", Held},
	} {
		table := taken(t, "pc", c.limit)
		table.Received(c.receivedAt, holder("pc"))
		list := table.Expire(c.at, aSecond)
		switch {
		case c.ends == "" && (len(list) != 0 || table.Get("goal").Phase() != c.phase):
			t.Errorf("%s: got %+v and phase %v, want phase %v", name, list, table.Get("goal").Phase(), c.phase)
		case c.ends != "" && (len(list) != 1 || !strings.Contains(list[0].Why, c.ends)):
			t.Errorf("%s: got %+v, want the end: %s", name, list, c.ends)
		}
	}
}

func TestLockEndsWithItsRule(t *testing.T) {
	table := taken(t, "pc", 0)
	if list := table.Expire(time.Second, func(Lock) time.Duration { return 0 }); len(list) != 1 || list[0].After.Phase() != Nobody {
		t.Errorf("got %+v, want the end of the lock", list)
	}
}

func TestReleaseGivesLockUntilSameEnd(t *testing.T) {
	table := taken(t, "pc", time.Minute)
	c, err := table.Release(3*time.Second, "goal", holder("pc"), holder("tablet"))
	if err != nil || c.After.Holder.Host != "tablet" || c.After.Generation != 2 || c.After.End != 61*time.Second {
		t.Errorf("got %+v, %v, want tablet with the end of pc's lock", c, err)
	}
	if _, err := empty().Release(0, "goal", holder("pc"), Holder{}); !errors.Is(err, ErrNobody) {
		t.Errorf("got %v, want that nobody holds it", err)
	}
}

func TestRightEndsInTime(t *testing.T) {
	r := Right{Grant{[16]byte{1}, 7}, time.Minute}
	for at, want := range map[time.Duration]bool{time.Minute - 1: true, time.Minute: false} {
		if got := r.Allows(r.Grant, at); got != want {
			t.Errorf("at %v: got %v, want %v", at, got, want)
		}
	}
	if r.Allows(Grant{r.Node, 6}, 0) || r.Allows(Grant{[16]byte{2}, 7}, 0) || !(Right{}).Allows(Grant{}, time.Hour) {
		t.Error("another generation or node is allowed, or a channel without lock is not")
	}
}

func TestRestoredHolderHasGrace(t *testing.T) {
	text := taken(t, "pc", time.Minute).Encode()
	table, err := Restore(text, thisBoot, 10*time.Second)
	l := table.Get("goal")
	if err != nil || l.Holder != holder("pc") || l.Phase() != InGrace || l.End != 61*time.Second {
		t.Fatalf("got %+v, %v, want pc's lock in grace", l, err)
	}
	if _, err := table.Take(10500*time.Millisecond, Request{Channel: "goal", By: holder("tablet")}); err == nil {
		t.Error("another host took it without force")
	}
	if list := table.Expire(10999*time.Millisecond, aSecond); len(list) != 0 {
		t.Errorf("got %+v, want a second of grace", list)
	}
	if list := table.Expire(11*time.Second, aSecond); len(list) != 1 {
		t.Error("the grace does not end")
	}
}

func TestRebootOrDamageEndsLocks(t *testing.T) {
	text := string(taken(t, "pc", 0).Encode())
	for name, c := range map[string]struct {
		text string
		boot [16]byte
		bad  bool
		next uint64
	}{
		"reboot":         {text, [16]byte{2}, false, 2},
		"unknown boot":   {text, [16]byte{}, false, 2},
		"cut":            {text[:len(text)/2], thisBoot, true, 1},
		"no channel":     {strings.Replace(text, `"goal"`, `""`, 1), thisBoot, true, 1},
		"short node":     {strings.Replace(text, "7063", "", 1), thisBoot, true, 1},
		"generation":     {strings.Replace(text, `"generation": 1`, `"generation": 0`, 1), thisBoot, true, 1},
		"taken tomorrow": {strings.Replace(text, `"taken_ns": 1`, `"taken_ns": 999991`, 1), thisBoot, true, 1},
	} {
		table, err := Restore([]byte(c.text), c.boot, 10*time.Second)
		if len(table.List()) != 0 || (err != nil) != c.bad {
			t.Errorf("%s: got %+v, %v", name, table.List(), err)
		}
		change, err := table.Take(11*time.Second, Request{Channel: "goal", By: holder("tablet")})
		if err != nil || change.After.Generation != c.next {
			t.Errorf("%s: got %+v, %v, want generation %d", name, change.After, err, c.next)
		}
	}
}

func TestNumberOfLocksIsLimited(t *testing.T) {
	table := empty()
	for i := range MaxLocks {
		c, err := table.Take(0, Request{Channel: fmt.Sprint("goal", i), By: holder("pc")})
		if err != nil {
			t.Fatal(err)
		}
		table.locks[c.After.Channel] = c.After // With would copy the table each time
	}
	if _, err := table.Take(0, Request{Channel: "one more", By: holder("pc")}); err == nil {
		t.Error("one more channel was taken")
	}
}

// plain is the lock of one channel in the plainest form: it has no phases, no table and no state.
type plain struct {
	holder          string
	end, receivedAt int
	generation      int
}

const plainGrace = 1000 // ms

func (p *plain) expire(now int) {
	if p.holder != "" && (p.end != 0 && now >= p.end || now-p.receivedAt >= plainGrace) {
		p.holder = ""
	}
}

func (p *plain) become(who string, now, end int) {
	p.generation++
	p.holder, p.end, p.receivedAt = who, end, now
}

// TestRandomSchedulesEqualPlainModel runs random schedules of three operators against the plain model. It also checks
// that the frames of at most one operator are allowed at any time.
func TestRandomSchedulesEqualPlainModel(t *testing.T) {
	schedules := 100_000
	if testing.Short() {
		schedules = 5_000
	}
	hosts := []string{"a", "b", "c"}
	random := rand.New(rand.NewPCG(1, 2))
	takeovers := 0
	for range schedules {
		table, model, now := empty(), plain{}, 1
		for range 40 {
			now += random.IntN(700)
			at := time.Duration(now) * time.Millisecond
			for _, c := range table.Expire(at, aSecond) {
				table = table.With(c)
			}
			model.expire(now)
			who := hosts[random.IntN(len(hosts))]
			var c Change
			var err error
			wanted := true // the model grants the request
			switch op := random.IntN(6); op {
			case 0, 1: // a packet
				table.Received(at, holder(who))
				if model.holder == who {
					model.receivedAt = now
				}
				continue
			case 2, 3:
				force, limit := random.IntN(3) == 0, random.IntN(3)*800
				c, err = table.Take(at, Request{Channel: "goal", By: holder(who), For: time.Duration(limit) * time.Millisecond, Force: force})
				end := limit
				if limit > 0 {
					end += now
				}
				switch {
				case model.holder == who:
					model.end, model.receivedAt = end, now
				case model.holder == "" || force:
					model.become(who, now, end)
					takeovers++
				default:
					wanted = false
				}
			case 4:
				to := ""
				if random.IntN(2) == 0 {
					to = hosts[random.IntN(len(hosts))]
				}
				next := Holder{}
				if to != "" {
					next = holder(to)
				}
				c, err = table.Release(at, "goal", holder(who), next)
				switch {
				case model.holder != who:
					wanted = false
				case to == "":
					model.holder = ""
				case to != who:
					model.become(to, now, model.end)
				}
			case 5: // the daemon is restarted
				if table, err = Restore(table.Encode(), thisBoot, at); err != nil {
					t.Fatal(err)
				}
				model.receivedAt = now
				continue
			}
			if (err == nil) != wanted {
				t.Fatalf("at %d ms, %+v: got %v, want it granted: %v", now, model, err, wanted)
			}
			if err == nil {
				table = table.With(c)
			}
			l := table.Get("goal")
			if l.Holder.Host != model.holder || l.Phase() != Nobody && (int(l.Generation) != model.generation || l.End != time.Duration(model.end)*time.Millisecond) {
				t.Fatalf("at %d ms: got %+v, want %+v", now, l, model)
			}
			allowed := 0
			for _, host := range hosts {
				for generation := range uint64(model.generation) + 2 {
					if generation > 0 && l.Right().Allows(Grant{holder(host).Node, generation}, at) {
						allowed++
					}
				}
			}
			if allowed > 1 || allowed == 1 && model.holder == "" {
				t.Fatalf("at %d ms: %d operators may put, holder %q", now, allowed, model.holder)
			}
		}
	}
	t.Logf("%d schedules, %d takeovers", schedules, takeovers)
	if takeovers < schedules {
		t.Errorf("got %d takeovers in %d schedules, want at least one in each on average", takeovers, schedules)
	}
}

func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"boot":"01000000000000000000000000000000","generation":3,"locks":[{"channel":"goal","host":"pc","node":"00","generation":3}]}`))
	f.Add(empty().Encode())
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := Restore(text, thisBoot, time.Hour)
		if err != nil && len(table.List()) > 0 {
			t.Error("damaged state gave locks")
		}
		again, err := Restore(table.Encode(), thisBoot, time.Hour)
		if err != nil || len(again.List()) != len(table.List()) {
			t.Errorf("got %v, %d locks, want %d", err, len(again.List()), len(table.List()))
		}
	})
}
