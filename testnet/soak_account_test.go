package testnet_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
)

// state is what a host's daemon knows of itself.
func (w *soak) state(host string) (state status.Report) {
	w.t.Helper()
	text := w.must(host, "status", "--json")
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		w.t.Fatalf("status of %s: %v in %s", host, err, text)
	}
	return state
}

// mirrors are a host's mirrors of the robot, by channel.
func (w *soak) mirrors(host string) map[string]status.Mirror {
	w.t.Helper()
	mirrors := map[string]status.Mirror{}
	for _, m := range w.state(host).Mirrors {
		mirrors[m.Channel] = m
	}
	return mirrors
}

// stop stops a publisher for good; its channels stay as they are.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
}

// undisturbed ends a publisher and checks that its puts went like those of
// another, whose channels the bridge has nothing to do with.
func (p *process) undisturbed(other *process) {
	p.t.Helper()
	worst, failed := p.worstPut()
	alone, _ := other.worstPut()
	p.t.Logf("worst put: %v; into a channel that is not mirrored: %v", worst, alone)
	if failed != 0 {
		p.t.Errorf("failed puts: got %d, want 0", failed)
	}
	// A put that meets a lock which is not given back fails after lockLimit; a broadcast
	// that wakes nobody does not end. On a busy machine a thread may lose the processor
	// within a put, as the other publisher's have.
	if limit := max(lockLimit, mostAllowed*alone); worst > limit {
		p.t.Errorf("worst put: got %v, want at most %v", worst, limit)
	}
}

// worstPut ends a publisher and returns the worst of its puts, and how many
// failed, over all of its channels.
func (p *process) worstPut() (worst time.Duration, failed int) {
	p.t.Helper()
	p.leave()
	told := 0
	for line := range strings.Lines(p.log.String()) {
		_, numbers, ok := strings.Cut(line, "msg=published ")
		if !ok {
			continue
		}
		var channel, text string
		var count, fails int
		if _, err := fmt.Sscanf(numbers, "channel=%s count=%d failed=%d worst_put=%s", &channel, &count, &fails, &text); err != nil {
			p.t.Fatalf("publisher: got %q: %v", line, err)
		}
		put, err := time.ParseDuration(text)
		if err != nil || count == 0 {
			p.t.Fatalf("publisher: got %q (%v), want puts", line, err)
		}
		worst, failed, told = max(worst, put), failed+fails, told+1
	}
	if told == 0 {
		p.t.Fatal("publisher told nothing of its puts")
	}
	return worst, failed
}

// holdTheLastFrame waits until all mirrors have the frame that was put last, and
// a reader finds it in them: its stamp is its number.
func (w *soak) holdTheLastFrame() {
	w.t.Helper()
	want := map[string]uint64{}
	for _, c := range w.state("robot").Locals {
		want[c.Channel] = c.Seq
	}
	for _, host := range []string{"pc", "operator"} {
		var views []string
		for _, name := range soakNames() {
			views = append(views, "reopen:robot."+name)
		}
		readers := w.observe(host, views...)
		for _, name := range soakNames() {
			readers.first("reopen:robot."+name, fmt.Sprintf("frame %d", want[name]), resumed+patience,
				func(s sighting) bool { return s.Err == "" && s.Stamp == want[name] })
		}
	}
}

// accountForEveryFrame waits until nothing is under way any more, and both ends of
// every subscription say the same of it.
func (w *soak) accountForEveryFrame() {
	w.t.Helper()
	await(w.t, 10*time.Second, func() error {
		exports := map[string]status.Subscription{}
		for _, e := range w.state("robot").Exports {
			exports[e.Peer+" "+e.Channel] = e
		}
		for _, host := range []string{"pc", "operator"} {
			for channel, m := range w.mirrors(host) {
				e := exports[host+" "+channel]
				if err := closed(m.Accounts); err != nil {
					return fmt.Errorf("mirror of %s on %s: %w", channel, host, err)
				}
				if err := closed(e.Accounts); err != nil {
					return fmt.Errorf("%s sent to %s: %w", channel, host, err)
				}
				if e.Offered != m.Offered {
					return fmt.Errorf("%s to %s: offered: got %+v at its origin, %+v at the mirror", channel, host, e.Accounts, m.Accounts)
				}
			}
		}
		return nil
	})
	sum := w.mirrors("pc")
	for _, channel := range []string{small(0), "scan", "camera"} {
		w.t.Logf("ledger of %s on the PC: %+v", channel, sum[channel].Accounts)
	}
}

// closed reports what is wrong with an account of a subscription at rest.
func closed(a ledger.Accounts) error {
	sum := a.Delivered + a.LateKept + a.Superseded + a.RateLimited + a.Expired + a.Lost + a.Late + a.Refused + a.Overflow
	if a.Offered == 0 || a.InFlight != 0 || sum != a.Offered {
		return fmt.Errorf("got %+v, want nothing in flight and the offered ones accounted for", a)
	}
	return nil
}

func TestAccountsThatAreNotClosedAreSeen(t *testing.T) {
	for _, c := range []struct {
		a    ledger.Accounts
		want bool
	}{
		{ledger.Accounts{Offered: 5, Delivered: 3, Lost: 1, LateKept: 1}, true},
		{ledger.Accounts{Offered: 5, Delivered: 3, Lost: 1}, false},
		{ledger.Accounts{Offered: 5, Delivered: 3, Lost: 1, InFlight: 1}, false},
		{ledger.Accounts{Offered: 5, Delivered: 6}, false},
		{ledger.Accounts{}, false},
	} {
		if err := closed(c.a); (err == nil) != c.want {
			t.Errorf("%+v: got %v, want it closed: %v", c.a, err, c.want)
		}
	}
}
