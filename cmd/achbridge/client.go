package main

import (
	"bytes"
	"cmp"
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

	"github.com/spf13/cobra"

	"achbridge/bridge"
)

// client asks the daemon of this host through its control socket.
type client struct {
	path string
	http http.Client
}

// errNoDaemon: nobody listens at the control socket.
var errNoDaemon = errors.New("no daemon is running")

// controlFlag gives a verb that talks to the daemon its --control.
func controlFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "control", "", "`PATH` of the daemon's control socket (default: where run puts it)")
	_ = cmd.MarkFlagFilename("control")
}

func (a *app) client(path string) *client {
	c := &client{path: cmp.Or(path, a.env(envName("control")), a.findControl())}
	c.http = http.Client{
		Timeout: 10 * time.Second,
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

// get returns what the API answers, and decodes it into v too.
func (c *client) get(ctx context.Context, path string, v any) (json.RawMessage, error) {
	return c.ask(ctx, http.MethodGet, path, nil, v)
}

// post sends request and decodes the answer into v.
func (c *client) post(ctx context.Context, path string, request, v any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	_, err = c.ask(ctx, http.MethodPost, path, body, v)
	return err
}

func (c *client) ask(ctx context.Context, method, path string, body []byte, v any) (json.RawMessage, error) {
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
		return nil, failed(fmt.Errorf("control socket %s: %w", c.path, err), "is the daemon of another version? achbridge version")
	}
	return answer, nil
}

// unreachable says why the daemon cannot be asked and what to do about it.
func (c *client) unreachable(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return failed(fmt.Errorf("%w (control socket %s)", errNoDaemon, c.path), "start it: achbridge run")
	case errors.Is(err, fs.ErrPermission):
		return failed(fmt.Errorf("control socket %s: %w", c.path, fs.ErrPermission), "run as the daemon's user or as a member of the socket's group")
	case errors.Is(err, context.Canceled):
		return context.Canceled
	}
	return failed(fmt.Errorf("control socket %s: %w", c.path, err), "")
}

// apiError turns an answer that refuses into a failure with its exit code.
func apiError(status int, answer []byte) error {
	var refusal errorReply
	if json.Unmarshal(answer, &refusal) != nil || refusal.Error == "" {
		refusal.Error = fmt.Sprintf("the daemon answered %d %s", status, http.StatusText(status))
	}
	err := errors.New(refusal.Error)
	switch status {
	case http.StatusBadRequest:
		return misused(err, "")
	case http.StatusNotFound:
		return nothing(err, "")
	}
	return failed(err, "")
}

// anyNames completes HOST/CHANNEL and the names of this host's channels.
func (a *app) anyNames(control *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		remote, _ := a.remoteNames(control)(cmd, args, typed)
		local, directive := a.channelNames(cmd, args, typed)
		return append(remote, local...), directive
	}
}

// remoteNames completes HOST/CHANNEL from what the daemon knows.
func (a *app) remoteNames(control *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		if len(args) == 0 {
			var list []bridge.RemoteChannel
			_, _ = a.client(*control).get(cmd.Context(), "/v1/channels", &list)
			for _, c := range list {
				names = append(names, c.Host+"/"+c.Channel)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
