package transport

import "sync"

// handshakes counts those that are pending, so as to bound what they cost. Only hosts
// whose address is proved have a share of their own, so that nobody can be locked out
// by forgery.
type handshakes struct {
	mu      sync.Mutex
	pending int
	perHost map[string]int
}

const (
	maxPending = 128
	// A host may have maxPendingPerHost, and a quarter of the room that is left if that
	// is less: some eight hosts that take all they can leave room for the others.
	maxPendingPerHost = 16
	roomPerHost       = 4
)

func newHandshakes() handshakes { return handshakes{perHost: make(map[string]int)} }

// enter counts one in, if there is room. Host is empty where no address is proved.
func (h *handshakes) enter(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	room := maxPending - h.pending
	if room == 0 || host != "" && h.perHost[host] >= min(maxPendingPerHost, room/roomPerHost) {
		return false
	}
	h.pending++
	if host != "" {
		h.perHost[host]++
	}
	return true
}

func (h *handshakes) leave(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending--
	if host == "" {
		return
	}
	if h.perHost[host]--; h.perHost[host] == 0 {
		delete(h.perHost, host)
	}
}

// atLeast tells whether n or more are pending.
func (h *handshakes) atLeast(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pending >= n
}
