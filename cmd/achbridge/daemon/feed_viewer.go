package daemon

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"achbridge/bridge/status"
)

// viewer is one browser that is connected to the feed.
type viewer struct {
	chunks       chan []byte // closed when the viewer is disconnected
	isCompressed bool
}

// enter adds a copy of v, of which only packed is set, and queues its first chunk. It returns
// false if there are too many viewers.
func (f *feed) enter(v viewer) (*viewer, bool) {
	snapshot, _ := f.overview.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.viewers) == mostBrowsers {
		return nil, false
	}
	if f.welcome.plain == nil {
		text := message([]byte("retry: 1000\n\n"), "ages", f.past)
		text = message(text, "events", append([]status.Event{}, f.recentEvents...))
		text = message(text, "status", withoutTypes(snapshot))
		f.welcome = f.compress(text)
	}
	v.chunks = make(chan []byte, viewerLag)
	v.chunks <- f.welcome.of(&v)
	f.viewers[&v] = true
	return &v, true
}

func (f *feed) leave(v *viewer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.viewers, v)
}

// ServeHTTP serves one browser until the browser or the server closes the connection.
func (f *feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, ok := f.enter(viewer{isCompressed: strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")})
	if !ok {
		w.Header().Set("Retry-After", "5")
		http.Error(w, fmt.Sprintf("%d browsers look already; close one", mostBrowsers), http.StatusServiceUnavailable)
		return
	}
	defer f.leave(v)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // disables buffering by an nginx proxy
	if v.isCompressed {
		h.Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, gzipHeader) // if this write fails, the next one returns the error
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
