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
	"syscall"
	"time"

	"achbridge/cmd/achbridge/ui"
)

// Client asks the daemon of this host through its control socket.
type Client struct {
	path string
	http http.Client
}

// errNoDaemon: nobody listens at the control socket.
var ErrNoDaemon = errors.New("no daemon is running")

// AnswerTime is how long an answer may take that waits for nothing.
const AnswerTime = 10 * time.Second

// New asks at the control socket of that path.
func New(path string) *Client {
	c := &Client{path: path}
	c.http = http.Client{
		Timeout: AnswerTime,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", c.path)
			},
		},
	}
	return c
}

// Within is the client with another limit for an answer.
func (c *Client) Within(limit time.Duration) *Client {
	other := *c
	other.http.Timeout = limit
	return &other
}

// Get returns what the API answers, and decodes it into v too.
func (c *Client) Get(ctx context.Context, path string, v any) (json.RawMessage, error) {
	return c.ask(ctx, http.MethodGet, path, nil, v)
}

// Post sends request and decodes the answer into v.
func (c *Client) Post(ctx context.Context, path string, request, v any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	_, err = c.ask(ctx, http.MethodPost, path, body, v)
	return err
}

func (c *Client) ask(ctx context.Context, method, path string, body []byte, v any) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://achbridge"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, apiError(resp.StatusCode, answer)
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return nil, ui.Failure(fmt.Errorf("control socket %s: %w", c.path, err), "is the daemon of another version? achbridge version")
	}
	return answer, nil
}

// unreachable says why the daemon cannot be asked and what to do about it.
func (c *Client) unreachable(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return ui.Failure(fmt.Errorf("%w (control socket %s)", ErrNoDaemon, c.path), "start it: achbridge run")
	case errors.Is(err, fs.ErrPermission):
		return ui.Failure(fmt.Errorf("control socket %s: %w", c.path, fs.ErrPermission), "run as the daemon's user or as a member of the socket's group")
	case errors.Is(err, context.Canceled):
		return context.Canceled
	}
	return ui.Failure(fmt.Errorf("control socket %s: %w", c.path, err), "")
}

// apiError turns an answer that refuses into a failure with its exit code.
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
	}
	return ui.Failure(err, "")
}
