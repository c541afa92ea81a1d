package transport

import (
	"strconv"
	"testing"
)

func TestManyHostsCannotTakeAllHandshakes(t *testing.T) {
	for _, hosts := range []int{1, 8, 40} {
		h := newHandshakes()
		for range maxPendingPerHost { // each takes what it gets
			for host := range hosts {
				h.enter("10.0.0." + strconv.Itoa(host))
			}
		}
		for i := range 3 {
			if !h.enter("10.0.1." + strconv.Itoa(i)) {
				t.Errorf("%d hosts: newcomer %d is refused, with %d pending", hosts, i, h.pending)
			}
		}
	}
}

func TestPendingHandshakesAreBounded(t *testing.T) {
	h := newHandshakes()
	entered := 0
	for i := range 3 * maxPending {
		if h.enter(strconv.Itoa(i)) {
			entered++
		}
		if h.enter("") {
			entered++
		}
	}
	if h.pending != maxPending || entered != maxPending {
		t.Errorf("pending: got %d, of %d let in, want %d", h.pending, entered, maxPending)
	}
	for i := range 3 * maxPending { // those that were let in
		if host := strconv.Itoa(i); h.perHost[host] > 0 {
			h.leave(host)
		}
	}
	for h.pending > 0 {
		h.leave("")
	}
	if len(h.perHost) != 0 {
		t.Errorf("hosts: got %v, want none", h.perHost)
	}
}
