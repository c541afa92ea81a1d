package hub

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Channel accesses one channel's newest frame at the hub. One goroutine may call Put, for a
// channel of this host, and another one Next, for a channel of any host.
type Channel struct {
	client     *Client
	host, name string
	closed     chan struct{}
	once       sync.Once

	put      publisher
	consumer consumer
}

// Channel returns the access to a host's channel. It does not block.
func (c *Client) Channel(host, channel string) *Channel {
	ch := &Channel{client: c, host: host, name: channel, closed: make(chan struct{})}
	ch.put.channel, ch.consumer.channel = ch, ch
	ch.consumer.init()
	return ch
}

// Close ends blocked calls, and fetches no more frames.
func (ch *Channel) Close() {
	ch.once.Do(func() { close(ch.closed) })
	ch.consumer.leave()
}

var errClosed = errors.New("hub: channel closed")

// over returns the reason why a call must end early, or nil.
func (ch *Channel) over(ctx context.Context) error {
	select {
	case <-ch.closed:
		return errors.Join(errClosed, net.ErrClosed)
	case <-ctx.Done():
		return ctx.Err()
	default:
		return nil
	}
}
