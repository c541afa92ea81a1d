package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// make has the stream of the channel made, unless it is there.
func (p *putter) make(ctx context.Context, l *line) error {
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
	p.made = p.line == l
	return nil
}

// makeStream asks the hub. A nats-server that is no hub of ours does not answer: there this host makes
// the stream itself.
func (c *Client) makeStream(ctx context.Context, l *line, host, channel string) error {
	answer, err := l.small.ask(ctx, MakeOf(c.credentials.Host), []byte(channel))
	if err == nil && len(answer.Data) > 0 {
		return fmt.Errorf("hub: %.200q", answer.Data)
	}
	if !errors.Is(err, nats.ErrNoResponders) {
		return err
	}
	config := StreamOf(host, channel)
	body, err := json.Marshal(config)
	if err != nil {
		return err
	}
	err = l.small.api(ctx, strings.TrimSuffix(StreamCreate, "*")+config.Name, body, nil)
	var refused *apiError
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("hub: this host may not make it: allow %s to publish to %s", c.credentials.Host, StreamCreate)
	case errors.As(err, &refused) && refused.Code == apiOtherStream:
		return fmt.Errorf("hub: there is one with other settings: remove stream %s there", config.Name)
	case errors.Is(err, nats.ErrNoResponders):
		return errors.New("hub: JetStream is off: switch it on in the nats-server")
	}
	return err
}

// apiError is what the server says of a request to its streams.
type apiError struct {
	Status int    `json:"code"`
	Code   int    `json:"err_code"`
	Text   string `json:"description"`
}

const (
	apiOtherStream = 10058
	apiNoStream    = 10059
)

func (e *apiError) Error() string { return fmt.Sprintf("%.200q", e.Text) }

// api asks the server for something about streams or consumers, and stores its answer in result unless that is nil.
func (h *half) api(ctx context.Context, subject string, body []byte, result any) error {
	m, err := h.ask(ctx, subject, body)
	if err != nil {
		return err
	}
	var answer struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("hub: answer to %s: %w", subject, err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(m.Data, result); err != nil {
		return fmt.Errorf("hub: answer to %s: %w", subject, err)
	}
	return nil
}
