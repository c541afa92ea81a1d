package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"achbridge/cmd/achbridge/ui"
)

// MirrorTemporarily requests a mirror of the channel, HOST/CHANNEL. The daemon keeps the mirror until ctx ends. gone receives an
// error if the daemon ends earlier.
func (c *Client) MirrorTemporarily(ctx context.Context, of string) (p TemporaryMirrorReply, gone <-chan error, err error) {
	unlimited := c.Within(0) // no time limit
	resp, err := unlimited.begin(ctx, http.MethodGet, "/v1/peek?"+url.Values{"of": {of}}.Encode(), nil)
	if err != nil {
		return p, nil, err
	}
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
		resp.Body.Close()
		return p, nil, c.unreachable(err)
	}
	ended := make(chan error, 1)
	go func() {
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body) // the daemon sends nothing more, so the copy ends when the daemon ends
		ended <- ui.Failure(errors.New("the daemon has ended, and with it the mirror of "+of), "start it: achbridge run")
	}()
	return p, ended, nil
}
