package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"achbridge/bridge/unit"
	"achbridge/cmd/achbridge/ui"
)

// Client sends requests to the daemon of this host, over its control socket.
type Client struct {
	path   string
	others []string // sockets of other users' daemons, for errors only
	http   http.Client
}

// ErrNoDaemon means that no daemon listens on the control socket.
var ErrNoDaemon = errors.New("no daemon is running")

// ErrNoReply means that the daemon did not answer a request. It may have carried the request out.
var ErrNoReply = errors.New("no reply")

// AnswerTime is how long a client waits for an answer, unless Within sets another limit.
const AnswerTime = 10 * time.Second

// New returns a client of the control socket at path. It does not connect yet. If no daemon listens there, errors name
// the sockets others, to which it never connects.
func New(path string, others ...string) *Client {
	c := &Client{path: path, others: others}
	c.http = http.Client{Timeout: AnswerTime, Transport: c.transport(func(net.Conn) {})}
	return c
}

// transport connects to the control socket for each request, and hands out the connection.
func (c *Client) transport(connected func(net.Conn)) *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "unix", c.path)
			if err == nil {
				connected(conn)
			}
			return conn, err
		},
	}
}

// Within returns a client that waits for an answer for at most limit; 0 means no limit.
func (c *Client) Within(limit time.Duration) *Client {
	other := *c
	other.http.Timeout = limit
	return &other
}

// Get requests path, decodes the answer into v, and returns the answer's JSON too.
func (c *Client) Get(ctx context.Context, path string, v any) (json.RawMessage, error) {
	return c.ask(ctx, http.MethodGet, path, nil, v)
}

// GetSoFar is Get for an answer that takes a while. When ctx ends, it closes its sending side of the connection. The
// daemon then answers with the data that it has so far, and GetSoFar waits for that answer.
func (c *Client) GetSoFar(ctx context.Context, path string, v any) (json.RawMessage, error) {
	other := *c
	other.http.Transport = c.transport(func(conn net.Conn) {
		context.AfterFunc(ctx, func() { _ = conn.(*net.UnixConn).CloseWrite() })
	})
	answer, err := other.Get(context.WithoutCancel(ctx), path, v)
	if err != nil && ctx.Err() != nil {
		return nil, context.Canceled
	}
	return answer, err
}

// Post sends request as JSON and decodes the answer into v.
func (c *Client) Post(ctx context.Context, path string, request, v any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err = c.ask(ctx, http.MethodPost, path, body, v); errors.Is(err, context.Canceled) {
		return ui.Failure(fmt.Errorf("stopped, but the daemon has the request already%.0w", err), "see the result: achbridge status")
	}
	return err
}

func (c *Client) ask(ctx context.Context, method, path string, body []byte, v any) (json.RawMessage, error) {
	resp, err := c.begin(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return nil, ui.Failure(fmt.Errorf("control socket %s: the answer cannot be read", c.path), "is the daemon of another version? achbridge version")
	}
	return answer, nil
}

// begin sends a request and returns an answer without an error status. The caller closes the body.
func (c *Client) begin(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://achbridge"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err == nil && resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	if err == nil {
		defer resp.Body.Close()
		var answer []byte
		if answer, err = io.ReadAll(resp.Body); err == nil {
			return nil, apiError(resp.StatusCode, answer)
		}
	}
	return nil, c.unreachable(err)
}

// unreachable turns a failed request into an error with its cause and a fix.
func (c *Client) unreachable(err error) error {
	switch {
	case (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)) && len(c.others) > 0:
		return ui.Failure(fmt.Errorf("no daemon of root is running (control socket %s), but another user's may be%.0w", c.path, ErrNoDaemon),
			"use it: --control "+strings.Join(c.others, ", or --control "))
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return ui.Failure(fmt.Errorf("%w (control socket %s)", ErrNoDaemon, c.path), "start it: achbridge run")
	case errors.Is(err, fs.ErrPermission):
		return ui.Failure(fmt.Errorf("control socket %s: %w", c.path, fs.ErrPermission), "run as the daemon's user or as a member of the socket's group")
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return ui.Failure(fmt.Errorf("control socket %s: the daemon did not answer within %s%.0w", c.path, unit.Time(c.http.Timeout), ErrNoReply), "is it stopped, or this host busy? its log may say")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ui.Failure(fmt.Errorf("control socket %s: the daemon ended before it answered%.0w", c.path, ErrNoReply), "start it: achbridge run")
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno
	}
	return ui.Failure(fmt.Errorf("control socket %s: %w", c.path, err), "")
}

// apiError turns an answer with an error status into an error with its exit code.
func apiError(status int, answer []byte) error {
	var refusal ErrorReply
	if json.Unmarshal(answer, &refusal) != nil || refusal.Error == "" {
		refusal.Error = fmt.Sprintf("the daemon answered %d %s", status, http.StatusText(status))
	}
	err := errors.New(refusal.Error)
	switch status {
	case http.StatusBadRequest:
		return ui.Usage(err, "")
	case http.StatusNotFound:
		return ui.NotFound(err, "")
	case http.StatusGatewayTimeout:
		return ui.Unknown(err, "")
	}
	return ui.Failure(err, "")
}
