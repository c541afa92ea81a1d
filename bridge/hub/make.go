package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// make makes the hub create the channel's stream, unless it exists.
func (p *publisher) make(ctx context.Context, l *connPair) error {
	p.on(l)
	p.mu.Lock()
	made := p.made
	p.mu.Unlock()
	if made {
		return nil
	}
	if err := p.channel.client.makeStream(ctx, l, p.channel.host, p.channel.name); err != nil {
		return fmt.Errorf("stream of %s/%s: %w", p.channel.host, p.channel.name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made = p.pair == l
	return nil
}

// askHub asks one of our hubs to create a stream or a consumer. isForeign reports that there was
// no responder: the nats-server is not one of our hubs.
func (h *hubConn) askHub(ctx context.Context, subject string, body []byte) (isForeign bool, err error) {
	answer, err := h.ask(ctx, subject, body)
	if err == nil && len(answer.Data) > 0 {
		return false, fmt.Errorf("hub: %.200q", answer.Data)
	}
	return errors.Is(err, nats.ErrNoResponders), err
}

// makeStream makes the hub create the stream of a channel. On a nats-server that is not one of our
// hubs, this host creates the stream itself.
func (c *Client) makeStream(ctx context.Context, l *connPair, host, channel string) error {
	isForeign, err := l.small.askHub(ctx, MakeOf(c.credentials.Host), []byte(channel))
	if !isForeign {
		return err
	}
	config := StreamOf(host, channel)
	body, err := json.Marshal(config)
	if err != nil {
		return err
	}
	err = l.small.api(ctx, strings.TrimSuffix(streamCreate, "*")+config.Name, body)
	var refused *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("hub: not permitted: allow %s to publish to %s", c.credentials.Host, streamCreate)
	case errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamNameInUse:
		return fmt.Errorf("hub: it exists with other settings: remove stream %s there", config.Name)
	case errors.Is(err, nats.ErrNoResponders):
		return errors.New("hub: JetStream is off: switch it on in the nats-server")
	}
	return err
}

// api asks the server to create or remove a stream or a consumer.
func (h *hubConn) api(ctx context.Context, subject string, body []byte) error {
	m, err := h.ask(ctx, subject, body)
	if err != nil {
		return err
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("hub: answer to %s: %w", subject, err)
	}
	return serverError(answer.Error)
}

// serverError returns the server's error for a JetStream request, with its text quoted; nil for nil.
func serverError(e *jetstream.APIError) error {
	if e == nil {
		return nil
	}
	return fmt.Errorf("%.200q%.0w", e.Description, e)
}
