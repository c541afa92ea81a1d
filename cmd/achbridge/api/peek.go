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

// Peek asks for a mirror of the channel, HOST/CHANNEL. The daemon keeps the mirror until
// ctx ends. gone receives an error when the daemon ends earlier.
func (c *Client) Peek(ctx context.Context, of string) (p PeekReply, gone <-chan error, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://achbridge/v1/peek?"+url.Values{"of": {of}}.Encode(), nil)
	if err != nil {
		return p, nil, err
	}
	patient := http.Client{Transport: c.http.Transport} // without a time limit
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
		_, _ = io.Copy(io.Discard, resp.Body) // the daemon sends nothing more: this waits for its end
		ended <- ui.Failure(errors.New("the daemon has ended, and with it the mirror of "+of), "start it: achbridge run")
	}()
	return p, ended, nil
}
