package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"achbridge/bridge"
)

// control serves the daemon's API: JSON over HTTP, on a unix socket whose
// permissions are the access control.
//
//	GET  /v1/status                                    statusReply
//	GET  /v1/channels?match=HOST/PATTERN&wait=TIME     []bridge.RemoteChannel, after linking to hosts that have
//	                                                   more than they announce, for that long at most
//	GET  /v1/unlisted?match=HOST/PATTERN               []unlisted
//	POST /v1/mirror   {"host","channel","as","qos"}    []bridge.MirrorStatus, those that the wish made so far
//	POST /v1/unmirror {"host","channel","remove"}      {}
//	POST /v1/push     {"channel","host","as","qos"}    bridge.PushStatus
//	GET  /v1/explain?channel=HOST/CHANNEL              explanation
//	POST /v1/reload   {}                               reloadReply
//	GET  /v1/age?of=HOST/CHANNEL|MIRROR&window=TIME    bridge.AgeReport, after that time
//	GET  /v1/setup                                     daemonSetup
//	GET  /v1/why?of=CHANNEL&window=TIME                whyReport, after that time
//	GET  /v1/events?after=SEQ&wait=TIME                bridge.EventList: what happened after event SEQ, at once
//	                                                   if there is something, else after that time at most
//	GET  /v1/peek?of=HOST/CHANNEL                      peekReply: a mirror to look at, which is there for as long as
//	                                                   the asker keeps the connection
//
// An error is {"error": text} with a status of 4xx or 5xx.
type control struct {
	node    *bridge.Node
	found   func() []bridge.RemoteChannel // channels known by discovery
	more    *reveal
	status  func() statusReply
	reload  func() (reloadReply, error)
	explain func(channel string) (explanation, error)
	setup   func() daemonSetup
	why     func(context.Context, url.Values) (whyReport, error)
	log     *slog.Logger
}

// daemonInfo is what status tells of the daemon beside its node.
type daemonInfo struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	Network string `json:"network"`
	Listen  string `json:"listen"`
	HTTP    string `json:"http,omitempty"` // where it serves its page and metrics
	Control string `json:"control"`
	// CertificateEnds is when the certificate of this host ends; not there without one.
	CertificateEnds *time.Time `json:"certificate_ends,omitempty"`
	// Revocations is the number of the list that counts.
	Revocations uint64 `json:"revocations,omitempty"`
}

// daemonSetup is how a daemon was told to look at its host, by whatever flags. Paths are
// absolute.
type daemonSetup struct {
	Config     string   `json:"config"` // empty: there is none
	Key        string   `json:"key"`
	State      string   `json:"state"` // empty: the usual place
	Discovery  string   `json:"discovery"`
	Interfaces []string `json:"interfaces"` // empty: all
}

type statusReply struct {
	daemonInfo
	Goroutines int `json:"goroutines"` // of the daemon; more at each look is a leak to report
	bridge.Status
}

type unmirrorRequest struct {
	Host    string `json:"host"`
	Channel string `json:"channel"`
	Remove  bool   `json:"remove"`
}

type errorReply struct {
	Error string `json:"error"`
}

// serve answers on ln until ctx ends, and closes ln.
func (c *control) serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           c.routes(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		ErrorLog:          slog.NewLogLogger(c.log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	return serveUntil(ctx, srv, ln, "control socket")
}

func (c *control) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, c.status(), nil)
	})
	mux.HandleFunc("GET /v1/channels", func(w http.ResponseWriter, r *http.Request) {
		list, err := c.channels(r.Context(), r.URL.Query())
		reply(w, list, err)
	})
	mux.HandleFunc("GET /v1/unlisted", func(w http.ResponseWriter, r *http.Request) {
		list, err := c.unlisted(r.URL.Query())
		reply(w, list, err)
	})
	mux.HandleFunc("POST /v1/mirror", func(w http.ResponseWriter, r *http.Request) {
		var m bridge.Mirror
		list, err := []bridge.MirrorStatus{}, read(w, r, &m)
		if err == nil {
			list, err = c.mirror(r.Context(), m)
		}
		reply(w, list, err)
	})
	mux.HandleFunc("POST /v1/unmirror", func(w http.ResponseWriter, r *http.Request) {
		var u unmirrorRequest
		err := read(w, r, &u)
		if err == nil {
			err = c.unmirror(u)
		}
		reply(w, struct{}{}, err)
	})
	mux.HandleFunc("POST /v1/push", func(w http.ResponseWriter, r *http.Request) {
		var p bridge.Push
		var status bridge.PushStatus
		err := read(w, r, &p)
		if err == nil {
			status, err = c.push(r.Context(), p)
		}
		reply(w, status, err)
	})
	mux.HandleFunc("GET /v1/explain", func(w http.ResponseWriter, r *http.Request) {
		e, err := c.explain(r.URL.Query().Get("channel"))
		reply(w, e, err)
	})
	mux.HandleFunc("POST /v1/reload", func(w http.ResponseWriter, _ *http.Request) {
		r, err := c.reload()
		reply(w, r, err)
	})
	mux.HandleFunc("GET /v1/setup", func(w http.ResponseWriter, _ *http.Request) { reply(w, c.setup(), nil) })
	mux.HandleFunc("GET /v1/why", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the window may be longer
		report, err := c.why(r.Context(), r.URL.Query())
		reply(w, report, err)
	})
	mux.HandleFunc("GET /v1/age", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the window may be longer
		report, err := c.age(r.Context(), r.URL.Query())
		reply(w, report, err)
	})
	mux.HandleFunc("GET /v1/peek", c.peek)
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		list, err := c.events(r.Context(), r.URL.Query())
		reply(w, list, err)
	})
	return mux
}

// channels are those that linked peers offer, and for the other hosts those
// that they announce.
func (c *control) channels(ctx context.Context, query url.Values) ([]bridge.RemoteChannel, error) {
	a, err := parseAddress(cmp.Or(query.Get("match"), "*/*"))
	if err != nil {
		return nil, badRequest{err}
	}
	if text := query.Get("wait"); text != "" {
		limit, err := time.ParseDuration(text)
		if err != nil || limit <= 0 {
			return nil, badRequest{fmt.Errorf("wait %q: want a time such as 1s", text)}
		}
		c.more.look(ctx, a, limit)
	}
	return a.filter(mergeChannels(c.node.Channels(), c.found())), nil
}

func (c *control) unlisted(query url.Values) ([]unlisted, error) {
	a, err := parseAddress(cmp.Or(query.Get("match"), "*/*"))
	if err != nil {
		return nil, badRequest{err}
	}
	return c.more.gaps(a), nil
}

// settle is how long a request that edits what is wanted waits to see what
// comes of it.
const settle = 1500 * time.Millisecond

// mirror adds the wish, or puts it in the place of one that differs only in its
// quality of service, and waits a little for its mirrors to run.
func (c *control) mirror(ctx context.Context, m bridge.Mirror) ([]bridge.MirrorStatus, error) {
	m.From = asked
	if err := c.node.Mirror(m); err != nil {
		return nil, badRequest{err}
	}
	var made []bridge.MirrorStatus
	until(ctx, settle, func() bool {
		made = []bridge.MirrorStatus{}
		waiting := false
		for _, s := range c.node.Glance().Mirrors {
			if (address{m.Host, m.Channel}).matches(s.Host, s.Channel) {
				made = append(made, s)
				waiting = waiting || s.State == "waiting"
			}
		}
		return len(made) > 0 && !waiting
	})
	return made, nil
}

func (c *control) unmirror(u unmirrorRequest) error {
	fate := bridge.Keep
	if u.Remove {
		fate = bridge.Remove
	}
	return c.node.Unmirror(bridge.Mirror{Host: u.Host, Channel: u.Channel}, fate)
}

// push adds the wish and waits a little for the other host's answer; a refusal
// is an error.
func (c *control) push(ctx context.Context, p bridge.Push) (bridge.PushStatus, error) {
	if _, err := bridge.ParsePush(p.Channel, p.Host+"/"+p.As); err != nil {
		return bridge.PushStatus{}, badRequest{err}
	}
	p.From = "achbridge push"
	if err := c.node.Push(ctx, p); err != nil {
		return bridge.PushStatus{}, err
	}
	for _, s := range c.node.Glance().Pushes {
		if s.Same(p) {
			return s, nil
		}
	}
	return bridge.PushStatus{Push: p, State: "waiting"}, nil
}

// until asks done every now and then, for as long as limit at most.
func until(ctx context.Context, limit time.Duration, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// badRequest is an error that the asker can mend.
type badRequest struct{ error }

func (b badRequest) Unwrap() error { return b.error }

const maxRequest = 64 << 10

// read parses the body of a request strictly.
func read(w http.ResponseWriter, r *http.Request, v any) error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return badRequest{fmt.Errorf("request: %w", err)}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return badRequest{errors.New("request: something follows the JSON")}
	}
	return nil
}

func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(statusOf(err))
		v = errorReply{err.Error()}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the asker is gone, or it works
}

func statusOf(err error) int {
	if _, ok := errors.AsType[badRequest](err); ok {
		return http.StatusBadRequest
	}
	if errors.Is(err, fs.ErrNotExist) {
		return http.StatusNotFound
	}
	return http.StatusConflict
}
