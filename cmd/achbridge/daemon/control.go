package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"achbridge/bridge"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/service"
	"achbridge/cmd/achbridge/ui"
	"achbridge/wire"
)

// control serves the daemon's API: JSON over HTTP, on a unix socket whose
// permissions are the access control.
//
//	GET  /v1/status                                    statusReply
//	GET  /v1/channels?match=HOST/PATTERN&wait=TIME     []status.RemoteChannel; for at most TIME it links to hosts
//	                                                   that have more channels than they announce
//	GET  /v1/unlisted?match=HOST/PATTERN               []unlisted
//	POST /v1/mirror   {"host","channel","as","qos"}    []status.Mirror, those that the request created so far
//	POST /v1/unmirror {"host","channel","remove"}      unmirrorReply
//	POST /v1/forget   {"host"}                         forgetReply
//	POST /v1/push     {"channel","host","as","qos","accept_machine"} status.Push
//	POST /v1/mux      {"rule","safe_file","safe_frame"} status.Mirror, the output
//	POST /v1/unmux    {"output"}                       {}
//	GET  /v1/wish?of=HOST/CHANNEL                      rule.Mirror, the mirror request for the channel or the pattern
//	GET  /v1/explain?channel=HOST/CHANNEL              explanation
//	POST /v1/reload   {}                               reloadReply
//	GET  /v1/age?of=HOST/CHANNEL|MIRROR&window=TIME    status.AgeReport, after that time
//	GET  /v1/setup                                     daemonSetup
//	GET  /v1/why?of=CHANNEL&window=TIME                whyReport, after that time; troublesReport without of
//	GET  /v1/events?after=SEQ&wait=TIME                status.EventList: the events after SEQ; waits for the
//	                                                   next one for at most TIME if there is none
//	GET  /v1/ping?of=HOST                              pingReply, after the round trip of one packet
//	POST /v1/load?of=HOST&up=BOOL                      loadReply, after 3 s in which the link is loaded
//	POST /v1/take     {"channel","for","force"}         status.Lock; channel is HOST/CHANNEL, for a time such as 10m
//	POST /v1/release  {"channel","to"}                 status.Lock
//	GET  /v1/who?of=[HOST/]CHANNEL                     status.Lock
//	POST /v1/put      {"channel","fields"}             status.Edit; status 504 if the frame may have been put
//	GET  /v1/layout?of=HOST/CHANNEL|MIRROR             layoutReply: the layout of the frames, from the origin
//	GET  /v1/peek?of=HOST/CHANNEL                      peekReply: a temporary mirror, removed when the client
//	                                                   closes the connection
//	GET  /v1/snapshot?before=TIME&after=TIME           an MCAP file: the last frames of the flight recorder, and those of
//	                                                   the time after; the trailer Achbridge-Snapshot has an api.Snapshot
//
// An error is {"error": text} with a status of 4xx or 5xx. Status 503 means that too many
// requests are already waiting.
type control struct {
	*Daemon
	status func() api.StatusReply
	why    func(context.Context, url.Values) (any, error)
}

// serve answers requests on ln until ctx ends, then closes ln.
func (c *control) serve(ctx context.Context, ln net.Listener) error {
	return service.ServeControl(ctx, ln, c.routes(), c.log)
}

func (c *control) routes() http.Handler {
	mux, waiting := http.NewServeMux(), make(service.Places, mostWaiting)
	long := func(path string, h http.HandlerFunc) { mux.HandleFunc(path, waiting.Serve(h, tooManyControlClients)) }
	mux.HandleFunc("GET /v1/status", plain(func() (api.StatusReply, error) { return c.status(), nil }))
	long("GET /v1/channels", query(c.channels))
	mux.HandleFunc("GET /v1/unlisted", query(c.unlisted))
	long("POST /v1/mirror", body(c.mirror))
	mux.HandleFunc("POST /v1/unmirror", body(c.unmirror))
	mux.HandleFunc("POST /v1/forget", body(c.forget))
	long("POST /v1/push", body(c.push))
	long("POST /v1/mux", body(c.mux))
	mux.HandleFunc("POST /v1/unmux", body(func(_ context.Context, u api.UnmuxRequest) (struct{}, error) {
		return struct{}{}, c.node.Unmux(u.Output)
	}))
	long("POST /v1/take", body(c.take))
	long("POST /v1/release", body(c.release))
	long("GET /v1/who", query(c.who))
	long("POST /v1/put", body(c.put))
	mux.HandleFunc("GET /v1/mirror-request", query(c.mirrorRequest))
	mux.HandleFunc("GET /v1/wish", query(c.mirrorRequest)) // the former name
	mux.HandleFunc("GET /v1/explain", query(c.explain))
	mux.HandleFunc("POST /v1/reload", plain(c.reload))
	mux.HandleFunc("GET /v1/setup", plain(c.setup))
	long("GET /v1/why", query(c.why))
	long("GET /v1/age", query(c.age))
	long("GET /v1/ping", query(c.ping))
	long("POST /v1/load", query(c.load))
	long("GET /v1/layout", query(c.layout))
	long("GET /v1/peek", c.mirrorTemporarily)
	long("GET /v1/events", query(c.events))
	long("GET /v1/snapshot", c.snapshot)
	return mux
}

// plain returns the handler for requests without parameters.
func plain[T any](answer func() (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		v, err := answer()
		reply(w, v, err)
	}
}

// query returns the handler for requests with URL parameters. It removes the read deadline, since answer may take longer.
func query[T any](answer func(context.Context, url.Values) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		v, err := answer(r.Context(), r.URL.Query())
		reply(w, v, err)
	}
}

// body returns the handler for requests with a JSON body.
func body[Q, T any](answer func(context.Context, Q) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		var v T
		err := read(w, r, &q)
		if err == nil {
			v, err = answer(r.Context(), q)
		}
		reply(w, v, err)
	}
}

// mostWaiting limits the concurrent requests that wait for something. It leaves
// connections for status and reload.
const mostWaiting = service.MostConns - 20

func tooManyControlClients(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(api.ErrorReply{Error: fmt.Sprintf("%d commands already wait for this daemon; end some: achbridge rate, echo, top or events --follow", mostWaiting)})
}

// channels returns the channels that linked peers offer and that other hosts announce.
func (c *control) channels(ctx context.Context, query url.Values) ([]status.RemoteChannel, error) {
	a, err := rule.ParseAddress(cmp.Or(query.Get("match"), "*/*"))
	if err != nil {
		return nil, badRequest{err}
	}
	if text := query.Get("wait"); text != "" {
		limit, err := time.ParseDuration(text)
		if err != nil || limit <= 0 {
			return nil, badRequest{fmt.Errorf("wait %q: want a time such as 1s", text)}
		}
		c.more.linkMatching(ctx, a, limit)
	}
	return api.Filter(a, api.MergeChannels(c.node.Channels(), c.announced())), nil
}

func (c *control) unlisted(_ context.Context, query url.Values) ([]api.Unlisted, error) {
	a, err := rule.ParseAddress(cmp.Or(query.Get("match"), "*/*"))
	if err != nil {
		return nil, badRequest{err}
	}
	return c.more.gaps(a), nil
}

// settle limits how long POST /v1/mirror waits for the first mirrors to run.
const settle = 1500 * time.Millisecond

// mirror adds a mirror request, or replaces the one that differs only in its quality of
// service. It waits for the mirrors to run, for at most settle.
func (c *control) mirror(ctx context.Context, m rule.Mirror) ([]status.Mirror, error) {
	m.From = config.ByMirrorCommand
	if err := c.nameIsFree(m); err != nil {
		return nil, err
	}
	if err := c.node.Mirror(m); err != nil {
		return nil, badRequest{err}
	}
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	var made []status.Mirror
	c.node.Await(ctx, func() bool {
		made = []status.Mirror{}
		waiting := false
		for _, s := range c.node.StatusNow().Mirrors {
			if !(rule.Address{Host: m.Host, Channel: m.Channel}).Matches(s.Host, s.Channel) {
				continue
			}
			if w, ok := c.node.MirrorRequest(s.Host, s.Channel); ok && w.Name(s.Host, s.Channel) == s.Name {
				made = append(made, s)
				waiting = waiting || s.State == status.MirrorWaiting
			}
		}
		return len(made) > 0 && !waiting
	})
	return made, nil
}

// nameIsFree returns an error if m requests a single channel under the name, and so in the
// file, of another channel's mirror.
func (c *control) nameIsFree(m rule.Mirror) error {
	if rule.IsPattern(m.Host) || rule.IsPattern(m.Channel) {
		return nil
	}
	name := m.Name(m.Host, m.Channel)
	for _, s := range c.node.StatusNow().Mirrors {
		if s.Name == name && (s.Host != m.Host || s.Channel != m.Channel) {
			return fmt.Errorf("%s is the mirror of %s/%s; choose another name with --as, or end that one: achbridge mirror %s/%s --off",
				name, s.Host, s.Channel, s.Host, s.Channel)
		}
	}
	return nil
}

// mirrorRequest returns the mirror request for a channel or a pattern.
func (c *control) mirrorRequest(_ context.Context, query url.Values) (rule.Mirror, error) {
	of := query.Get("of")
	a, err := rule.ParseAddress(of)
	if err != nil {
		return rule.Mirror{}, badRequest{err}
	}
	w, ok := c.node.MirrorRequest(a.Host, a.Channel)
	if !ok {
		return w, fmt.Errorf("%s is not mirrored%.0w", of, fs.ErrNotExist)
	}
	return w, nil
}

func (c *control) unmirror(_ context.Context, u api.UnmirrorRequest) (became api.UnmirrorReply, err error) {
	policy := bridge.Keep
	if u.Remove {
		policy = bridge.Remove
	}
	before := c.node.StatusNow().Mirrors
	if err := c.node.Unmirror(rule.Mirror{Host: u.Host, Channel: u.Channel}, policy); err != nil {
		var mirrored []string
		for _, m := range before {
			mirrored = append(mirrored, m.Host+"/"+m.Channel)
		}
		return became, fmt.Errorf("%w%s", err, ui.DidYouMean(u.Host+"/"+u.Channel, mirrored))
	}
	became.Mirrors = []api.Unmirrored{}
	for _, m := range before {
		if !(rule.Address{Host: u.Host, Channel: u.Channel}).Matches(m.Host, m.Channel) {
			continue
		}
		now := api.Unmirrored{Host: m.Host, Channel: m.Channel, Name: m.Name, QoS: m.QoS}
		if w, ok := c.node.MirrorRequest(m.Host, m.Channel); ok {
			now.Still = &w
		}
		became.Mirrors = append(became.Mirrors, now)
	}
	return became, nil
}

// forget forgets a host that is gone for good.
func (c *control) forget(_ context.Context, f api.ForgetRequest) (api.ForgetReply, error) {
	removed, err := c.node.Forget(f.Host)
	if errors.Is(err, fs.ErrNotExist) {
		var hosts []string
		for _, m := range c.node.StatusNow().Mirrors {
			hosts = append(hosts, m.Host)
		}
		err = fmt.Errorf("%w%s", err, ui.DidYouMean(f.Host, hosts))
	}
	return api.ForgetReply{Removed: append([]string{}, removed...)}, err
}

// push adds a push request and waits a short time for the other host's answer. It returns
// an error if the host refuses the push.
func (c *control) push(ctx context.Context, asked api.Push) (status.Push, error) {
	p := asked.Push
	if err := p.CheckOne(); err != nil {
		return status.Push{}, badRequest{fmt.Errorf("push %s %s: %w", p.Channel, p.Host, err)}
	}
	if asked.AcceptMachine {
		if err := c.node.AcceptMachine(p.Host); err != nil {
			return status.Push{}, err
		}
	}
	p.From = "achbridge push"
	if err := c.node.Push(ctx, p); err != nil {
		return status.Push{}, err
	}
	now := c.node.StatusNow()
	for _, s := range now.Pushes {
		if s.Same(p) {
			s.Reason += c.unseen(p.Host, now)
			return s, nil
		}
	}
	return status.Push{Push: p, State: status.PushWaiting}, nil
}

// unseen returns a text about a host that was never seen, with a similar name of one that was; "" for other hosts.
func (c *control) unseen(host string, now status.Report) string {
	var names []string
	for _, p := range now.Peers {
		names = append(names, p.Host)
	}
	for _, p := range c.members() {
		names = append(names, p.Host)
	}
	if rule.IsAchd(host) || slices.Contains(names, host) {
		return ""
	}
	return "; no such host has been seen" + ui.DidYouMean(host, names)
}

// mux adds a mux, or replaces the one with the same output. It waits for the output, for at most settle.
func (c *control) mux(ctx context.Context, q api.MuxRequest) (output status.Mirror, err error) {
	r, err := rule.ParseMux(q.Rule, nil)
	if err != nil {
		return output, badRequest{err}
	}
	r.Safe, r.From = rule.OnStale{File: q.SafeFile, Frame: string(q.SafeFrame)}, "achbridge mux"
	if err := c.node.Mux(r); err != nil {
		return output, badRequest{err}
	}
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	c.node.Await(ctx, func() bool {
		for _, s := range c.node.StatusNow().Mirrors {
			if s.Name == r.Output && s.Mux != nil {
				output = s
			}
		}
		return output.Mux != nil && output.State != status.MirrorWaiting
	})
	if output.Mux == nil {
		return output, fmt.Errorf("mux %s: it does not begin; the daemon's log says why", r.Output)
	}
	return output, nil
}

// take takes the operator lock of a channel of another host.
func (c *control) take(ctx context.Context, asked api.Take) (status.Lock, error) {
	of, err := remoteChannel("take", asked.Channel)
	if err != nil {
		return status.Lock{}, err
	}
	var limit time.Duration
	if asked.For != "" {
		if limit, err = time.ParseDuration(asked.For); err != nil || limit <= 0 {
			return status.Lock{}, badRequest{fmt.Errorf("take %s: for %q: want a time, as in 10m", asked.Channel, asked.For)}
		}
	}
	return c.node.Take(ctx, of, limit, asked.Force)
}

// release releases the operator lock of a channel of another host.
func (c *control) release(ctx context.Context, asked api.Release) (status.Lock, error) {
	of, err := remoteChannel("release", asked.Channel)
	if err != nil {
		return status.Lock{}, err
	}
	return c.node.Release(ctx, of, asked.To)
}

// who returns who holds the operator lock of a channel.
func (c *control) who(ctx context.Context, query url.Values) (status.Lock, error) {
	text := query.Get("of")
	if !strings.Contains(text, "/") {
		text = c.self.Host + "/" + text
	}
	of, err := remoteChannel("who", text)
	if err != nil {
		return status.Lock{}, err
	}
	return c.node.Holder(ctx, of)
}

// put changes fields of the newest frame of a channel of another host.
func (c *control) put(ctx context.Context, asked api.Put) (status.Edit, error) {
	of, err := remoteChannel("put", asked.Channel)
	if err != nil {
		return status.Edit{}, err
	}
	if n := len(asked.Fields); n == 0 || n > wire.MaxFieldEdits {
		return status.Edit{}, badRequest{fmt.Errorf("put %s: %d fields: want 1 to %d", asked.Channel, n, wire.MaxFieldEdits)}
	}
	fields := make([]wire.FieldEdit, len(asked.Fields))
	for i, f := range asked.Fields {
		if f.Path == "" || f.Path != wire.Text(f.Path) || f.Value != wire.Text(f.Value) {
			return status.Edit{}, badRequest{fmt.Errorf("put %s: field %q, value %q: want printable texts", asked.Channel, f.Path, f.Value)}
		}
		fields[i] = wire.FieldEdit(f)
	}
	e, err := c.node.Edit(ctx, of, fields)
	if errors.Is(err, bridge.ErrNoAnswer) || errors.Is(err, context.Canceled) {
		err = unknownOutcome{err}
	}
	return e, err
}

// remoteChannel parses HOST/CHANNEL for a command.
func remoteChannel(command, text string) (rule.Address, error) {
	of, err := rule.ParseChannel(text)
	if err != nil {
		return of, badRequest{fmt.Errorf("%s %s: %w", command, text, err)}
	}
	return of, nil
}

// badRequest marks an error of the client; statusOf returns 400 for it.
type badRequest struct{ error }

func (b badRequest) Unwrap() error { return b.error }

// unknownOutcome marks the error of a request that may have had its effect; statusOf returns 504 for it.
type unknownOutcome struct{ error }

const maxRequest = 64 << 10

// read decodes the JSON body of a request into v. Unknown fields and trailing data are errors.
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
	if errors.Is(err, context.Canceled) { // if the client closed the connection instead, it does not read the reply
		err = errors.New("the daemon ends; the request had no effect")
	}
	code := http.StatusOK
	if err != nil {
		code, v = statusOf(err), api.ErrorReply{Error: err.Error()}
	}
	service.ReplyJSON(w, code, v)
}

func statusOf(err error) int {
	if _, ok := errors.AsType[badRequest](err); ok {
		return http.StatusBadRequest
	}
	if _, ok := errors.AsType[unknownOutcome](err); ok {
		return http.StatusGatewayTimeout
	}
	if errors.Is(err, fs.ErrNotExist) {
		return http.StatusNotFound
	}
	return http.StatusConflict
}
