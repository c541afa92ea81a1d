package hub

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// consumerLasts is how long the server keeps a consumer without a fetch.
	consumerLasts = 2 * time.Second
	// maxWaiting is the number of fetches of a consumer that may wait at the server. A host has up
	// to maxFetches on each of its two connections, and fetches of a former connection may still
	// wait.
	maxWaiting = 8
)

// ConsumerOf returns the configuration of the consumer with which a host fetches a stream's
// frames, beginning with the stored frame. It fails if stream does not have the form of
// StreamName.
func ConsumerOf(host, stream string) (jetstream.ConsumerConfig, error) {
	subject, err := subjectOf(stream)
	return jetstream.ConsumerConfig{
		Name:              ConsumerName(host),
		FilterSubject:     subject,
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy:         jetstream.AckNonePolicy,
		MaxWaiting:        maxWaiting,
		MaxRequestBatch:   1,
		MaxRequestExpires: fetchTimeout,
		InactiveThreshold: consumerLasts,
		MemoryStorage:     true,
		Replicas:          1,
	}, err
}

// readFirst follows the stream's name in a connection's first request for its consumer on that
// stream.
const readFirst = " first"

// readRequest returns the body of a request to one of our hubs for a consumer.
func readRequest(stream string, isFirst bool) []byte {
	if isFirst {
		stream += readFirst
	}
	return []byte(stream)
}

// ParseRead parses the body of a request for a consumer. isFirst reports whether it is the first
// request of its connection. A consumer that exists then belongs to a former connection. Frames
// may have gone there, or may still go there.
func ParseRead(body []byte) (stream string, isFirst bool) {
	return strings.CutSuffix(string(body), readFirst)
}

// makeConsumer makes the hub create the consumer with which this host fetches. isFirst is as in
// ParseRead. On a nats-server that is not one of our hubs, this host creates the consumer itself.
func (ch *Channel) makeConsumer(ctx context.Context, l *connPair, isFirst bool) error {
	host, stream := ch.client.credentials.Host, StreamName(ch.host, ch.name)
	isForeign, err := l.small.askHub(ctx, ReadOf(host), readRequest(stream, isFirst))
	if !isForeign {
		return err
	}
	if isFirst {
		if err := l.small.removeConsumer(ctx, host, stream); err != nil {
			return err
		}
	}
	config, err := ConsumerOf(host, stream)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"stream_name": stream, "config": config})
	if err != nil {
		return err
	}
	return l.small.api(ctx, "$JS.API.CONSUMER.CREATE."+stream+"."+config.Name+"."+config.FilterSubject, body)
}

// removeConsumer removes the consumer of a former connection. A missing consumer is no error.
// Neither is a server whose owner has not allowed the removal. Then a frame that went to the
// former connection is lost, and the mirror gets the next one.
func (h *hubConn) removeConsumer(ctx context.Context, host, stream string) error {
	err := h.api(ctx, "$JS.API.CONSUMER.DELETE."+stream+"."+ConsumerName(host), nil)
	var none *jetstream.APIError
	if errors.As(err, &none) || errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	return err
}
