package daemon

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"achbridge/bridge/status"
)

// viewer is one browser.
type viewer struct {
	chunks chan []byte // closed when it is cut off
	packed bool
	source string // address without its port
}

// enter adds a viewer with its source and packed set. Its first chunk is there already.
// False: there are too many viewers, and none has to make room.
func (f *feed) enter(v viewer) (*viewer, bool) {
	snapshot, _ := f.overview.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.viewers) == mostViewers && !f.makeRoom(v.source) {
		return nil, false
	}
	if f.welcome.plain == nil {
		text := message([]byte("retry: 1000\n\n"), "ages", f.past)
		text = message(text, "events", append([]status.Event{}, f.kept...))
		text = message(text, "status", withoutTypes(snapshot))
		f.welcome = f.pack(text)
	}
	v.chunks = make(chan []byte, viewerLag)
	v.chunks <- f.welcome.of(&v)
	f.viewers[&v] = true
	return &v, true
}

// makeRoom cuts off a viewer of the source with most viewers, unless the newcomer's source
// would then have as many. So no source shuts the others out. Needs f.mu.
func (f *feed) makeRoom(newcomer string) bool {
	of := map[string]int{}
	for v := range f.viewers {
		of[v.source]++
	}
	var victim *viewer
	for v := range f.viewers {
		if victim == nil || of[v.source] > of[victim.source] {
			victim = v
		}
	}
	if of[victim.source] <= of[newcomer]+1 {
		return false
	}
	f.cutOff(victim)
	return true
}

// cutOff ends a viewer. Needs f.mu.
func (f *feed) cutOff(v *viewer) {
	delete(f.viewers, v)
	close(v.chunks)
}

func (f *feed) leave(v *viewer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.viewers, v)
}

// ServeHTTP serves one browser until it leaves, is cut off, or the server ends.
func (f *feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	source, _, _ := net.SplitHostPort(r.RemoteAddr)
	v, ok := f.enter(viewer{source: source, packed: strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")})
	if !ok {
		w.Header().Set("Retry-After", "5")
		http.Error(w, fmt.Sprintf("%d browsers look already; close one", mostViewers), http.StatusServiceUnavailable)
		return
	}
	defer f.leave(v)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // in case nginx is in front
	if v.packed {
		h.Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, gzipHeader) // the first write that fails tells
	}
	out := http.NewResponseController(w)
	for {
		select {
		case c, ok := <-v.chunks:
			if !ok {
				return
			}
			if err := out.SetWriteDeadline(time.Now().Add(viewerWrite)); err != nil {
				return
			}
			if _, err := w.Write(c); err != nil {
				return
			}
			if err := out.Flush(); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
