package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"achbridge/bridge"
	"achbridge/localach"
)

// peekReply names the mirror that is there to be looked at.
type peekReply struct {
	Mirror    string `json:"mirrored_as"`
	Temporary bool   `json:"temporary"` // it goes with the last who looks
}

// A channel of another host is waited for: for peekSoon where its host is linked, or
// unknown, and for peekWait where it has to be dialled first.
const (
	peekSoon = time.Second
	peekWait = 4 * time.Second
)

// peek answers with the mirror of a channel, and keeps it for as long as the asker
// stays connected.
func (c *control) peek(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it would end the request
	a, err := oneChannel(r.URL.Query().Get("of"))
	if err != nil {
		reply(w, nil, badRequest{err})
		return
	}
	m, end, err := c.lookAt(r.Context(), a)
	if err != nil {
		reply(w, nil, err)
		return
	}
	defer end()
	reply(w, peekReply{m.Name, m.Temporary}, nil)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// oneChannel reads HOST/CHANNEL, without patterns.
func oneChannel(text string) (address, error) {
	a, err := parseAddress(text)
	if err == nil && (!strings.Contains(text, "/") || strings.ContainsAny(a.String(), `*?[\`)) {
		err = fmt.Errorf("%q: want HOST/CHANNEL, as in krang/imu", text)
	}
	return a, err
}

// lookAt waits until there is a mirror of a channel to look at, which may go when end
// is called.
func (c *control) lookAt(ctx context.Context, a address) (found bridge.MirrorStatus, end func(), err error) {
	if end, err = c.node.Peek(a.host, a.channel); err != nil {
		return found, nil, err
	}
	began := time.Now()
	until(ctx, peekWait, func() bool {
		s := c.node.Glance()
		if m, ok := mirrorOf(s, a.host, a.channel); ok {
			found = m
		}
		dialled := slices.ContainsFunc(s.Peers, func(p bridge.PeerStatus) bool { return p.Host == a.host && p.State != "linked" })
		return found.State != "" && found.State != "waiting" || !dialled && time.Since(began) > peekSoon
	})
	if found.State == "live" || found.State == "stale" {
		return found, end, nil
	}
	end()
	if found.Reason == "" {
		return found, nil, c.absent(a)
	}
	return found, nil, fmt.Errorf("%s: %s: %s", a, found.State, found.Reason)
}

// absent says why there is nothing of a channel.
func (c *control) absent(a address) error {
	if _, linked := linkOf(c.node.Glance(), a.host); linked {
		return notThere{fmt.Errorf("%s: %s offers no such channel; achbridge ls %s lists those that it does", a, a.host, a.host)}
	}
	return notThere{fmt.Errorf("%s: no link to %s; achbridge status tells of the peers", a, a.host)}
}

// notThere is an error about something that there is not.
type notThere struct{ error }

func (notThere) Is(target error) bool { return target == fs.ErrNotExist }

// view is a channel to read: one of this host, or the mirror of another host's.
type view struct {
	*localach.Channel
	ctx   context.Context // ends with the mirror, too
	close func()
}

// lookAt opens a channel of this host by its name, or has the daemon mirror
// HOST/CHANNEL for as long as it is not closed.
func (a *app) lookAt(ctx context.Context, c *client, of string) (l view, err error) {
	if c == nil || !strings.Contains(of, "/") {
		ch, err := a.open(of)
		if err != nil {
			return l, err
		}
		return view{ch, ctx, func() { ch.Close() }}, nil
	}
	if _, err := oneChannel(of); err != nil {
		return l, misused(err, "")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p, gone, err := c.peek(ctx, of)
	if err != nil {
		cancel(nil)
		return l, err
	}
	go func() { cancel(<-gone) }()
	ch, err := a.open(p.Mirror)
	if err != nil {
		cancel(nil)
		return l, err
	}
	return view{ch, ctx, func() {
		ch.Close()
		cancel(nil)
	}}, nil
}

// follow has read follow a channel, as lookAt opens it, and opens the channel of another
// host again when its mirror was replaced.
func (a *app) follow(ctx context.Context, c *client, of string, read func(view) error) error {
	for {
		l, err := a.lookAt(ctx, c, of)
		if err != nil {
			return err
		}
		err = read(l)
		name, over := l.Name(), l.ended(ctx)
		l.close()
		anew := errors.Is(err, localach.ErrUnlinked) || errors.Is(err, localach.ErrReplaced) || errors.Is(err, localach.ErrCorrupt)
		switch {
		case over != nil:
			return over
		case err == nil:
			return nil
		case c == nil || name == of || !anew || ctx.Err() != nil:
			return a.channelError(name, err)
		}
	}
}

// ended is what a verb returns that has read l until its context was over: nil when
// that was asked for.
func (l view) ended(ctx context.Context) error {
	if ctx.Err() == nil && l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	return nil
}

// peek asks for a mirror, which stays until ctx ends; gone tells that it has gone
// before.
func (c *client) peek(ctx context.Context, of string) (p peekReply, gone <-chan error, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://achbridge/v1/peek?"+url.Values{"of": {of}}.Encode(), nil)
	if err != nil {
		return p, nil, err
	}
	patient := http.Client{Transport: c.http.Transport}
	resp, err := patient.Do(req)
	if err != nil {
		return p, nil, c.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			return p, nil, c.unreachable(err)
		}
		return p, nil, apiError(resp.StatusCode, answer)
	}
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
		resp.Body.Close()
		return p, nil, c.unreachable(err)
	}
	ended := make(chan error, 1)
	go func() {
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body) // nothing more comes
		ended <- failed(errors.New("the daemon has ended, and with it the mirror of "+of), "start it: achbridge run")
	}()
	return p, ended, nil
}
