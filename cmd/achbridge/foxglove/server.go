package foxglove

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/service"
	"achbridge/localach"
)

// mostViewers limits the number of viewers at a time. It is below service.MostConns, so that a new client gets an answer.
const mostViewers = 32

// Config configures a Server.
type Config struct {
	Name    string          // name of this host
	Dir     localach.Dir    // directory of the channels
	Token   string          // from ReadToken
	Origins func() []string // further origins of web pages that may connect
	Node    Node
	Log     *slog.Logger // never gets a URL of a viewer, which contains the token
}

// Node is the daemon's node.
type Node interface {
	// Channels returns the channels to show. The server calls it once a second while there are viewers.
	Channels() []Channel
	// Newest returns a function for the mirror of that name, nil if there is none. The function returns the number in the
	// ring and the age of the newest frame that the node has put.
	Newest(mirror string) func() (seq uint64, age time.Duration, known bool)
	// Events returns the events after a given one, as bridge.Node.Events.
	Events(ctx context.Context, after uint64) (status.EventList, error)
}

// Channel is a channel of this host.
type Channel struct {
	Name        string
	Layout      []byte   // as layout.Encode returns it; nil if there is none
	IsRequested bool     // another host was asked for the layout and has not answered yet
	Origin      string   // HOST/CHANNEL of a mirror, else ""
	AgeMs       *float64 // age of a mirror's newest frame, nil if unknown
}

// Server serves viewers. It is an http.Handler.
type Server struct {
	cfg     Config
	session string // differs after each start
	start   time.Time
	watcher *localach.Watcher
	ages    ages
	events  events
	catalog catalog

	ctx  context.Context // context of viewers and sources; ends with Run
	stop context.CancelFunc
	work sync.WaitGroup // viewers and sources

	mu      sync.Mutex // guards the following fields
	isOver  bool       // Run has ended or ends
	places  int        // viewers that are connected or connecting
	viewers map[*viewer]bool
	sources map[*topic]*runningSource
}

// runningSource is a source with the function that ends it.
type runningSource struct {
	*source
	stop context.CancelFunc
}

// New returns a Server. Call Run before requests come.
func New(cfg Config) (*Server, error) {
	w, err := localach.NewWatcher()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, session: rand.Text(), start: time.Now(), watcher: w, viewers: map[*viewer]bool{}, sources: map[*topic]*runningSource{}}
	s.catalog.own = []*topic{s.ages.topic(), s.events.topic()}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Run serves viewers until ctx ends. It returns after all viewers have been disconnected.
func (s *Server) Run(ctx context.Context) error {
	var own sync.WaitGroup
	failed := make(chan error, 1)
	own.Go(func() { failed <- s.watcher.Run(s.ctx) })
	own.Go(func() { s.events.follow(s.ctx, s.cfg.Node) })
	own.Go(func() { _ = service.Repeat(s.ctx, tickEvery, s.tick) }) // Repeat returns only when its context ends
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-failed:
	}
	s.mu.Lock()
	s.isOver = true
	s.mu.Unlock()
	s.stop()
	s.work.Wait()
	own.Wait()
	return err
}

func (s *Server) now() time.Duration { return time.Since(s.start) }

// ServeHTTP serves one viewer until its connection ends. The caller checks the header Host.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	o, refused := s.admit(r)
	if refused != nil {
		http.Error(w, refused.text, refused.status)
		return
	}
	if !s.enter() {
		w.Header().Set("Retry-After", "5")
		http.Error(w, fmt.Sprintf("%d viewers are connected already; close one", mostViewers), http.StatusServiceUnavailable)
		return
	}
	defer s.work.Done()
	defer s.leave()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: subprotocols, InsecureSkipVerify: true}) // admit has checked the origin
	if err != nil {
		return // Accept has replied
	}
	v := newViewer(s, conn, o)
	_ = v.text(serverInfo("achbridge on "+s.cfg.Name, s.session)) // the first text is no backlog
	s.log("viewer connected", r, slog.String("subprotocol", conn.Subprotocol()), slog.String("encoding", string(o.encoding)))
	s.show(v)
	err = v.serve(s.ctx)
	s.hide(v)
	_, reason := reasonOf(err)
	s.log("viewer disconnected", r, slog.String("reason", reason))
}

func (s *Server) log(message string, r *http.Request, attrs ...slog.Attr) {
	s.cfg.Log.LogAttrs(context.Background(), slog.LevelInfo, message, append([]slog.Attr{slog.String("addr", r.RemoteAddr)}, attrs...)...)
}

// enter takes a place for a viewer, if there is one.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOver || s.places == mostViewers {
		return false
	}
	s.places++
	s.work.Add(1)
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places--
}

// show adds a viewer to those that learn which topics exist.
func (s *Server) show(v *viewer) {
	s.mu.Lock()
	s.viewers[v] = true
	s.mu.Unlock()
	s.refresh()
}

func (s *Server) hide(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.viewers, v)
}

// subscribe makes the feed of a topic offer its messages to a slot of a viewer. The channel is read from then on.
func (s *Server) subscribe(t *topic, to *slot, v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to.feed = t.feed
	if to.feed == nil {
		src := s.sources[t]
		if src == nil {
			ctx, stop := context.WithCancel(s.ctx)
			src = &runningSource{&source{name: t.channel, convert: t.convert, cfg: &s.cfg, watcher: s.watcher}, stop}
			s.sources[t] = src
			s.work.Go(func() { src.run(ctx) }) // work does not end before the viewer that subscribes
		}
		to.feed = src
	}
	to.feed.add(to, v)
}

// unsubscribe ends what subscribe has begun. The channel is not read any more when nobody subscribes to it.
func (s *Server) unsubscribe(of *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := of.feed.remove(of)
	if src := s.sources[of.topic]; src != nil && left == 0 {
		src.stop()
		delete(s.sources, of.topic)
	}
}
