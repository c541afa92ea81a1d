package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"achbridge/bridge/hub"
	"achbridge/bridge/logline"
	"achbridge/cmd/achbridge/ui"
)

// maker creates the streams and consumers that hosts request. Hosts themselves may not create, change or delete any. The reply to
// a request is empty, or the text of the error.
type maker struct {
	log   *slog.Logger
	guard *guard
	conn  *nats.Conn
	js    jetstream.JetStream
	room  func() bool // reports whether there is memory for one more stream
	began time.Time
	work  sync.WaitGroup // goroutines, one for each host whose requests are being answered

	mu      sync.Mutex
	refused logline.Limit
	hosts   map[string]*requests // requests of each host
	removed map[string]bool      // removed hosts whose streams and consumers clean has yet to delete
}

const (
	// maxChannels limits the streams of one host.
	maxChannels = 1000
	// maxChannelName is Ach's limit for channel names, in bytes.
	maxChannelName = 255
	makeTime       = 5 * time.Second
)

// newMaker returns a maker, which answers requests only after serve is called.
func newMaker(s *server.Server, g *guard, log *slog.Logger) (*maker, error) {
	m := &maker{log: log, guard: g, room: func() bool { return true }, began: time.Now(), refused: logline.Limit{Burst: 5, Period: 10 * time.Second},
		hosts: map[string]*requests{}, removed: map[string]bool{}}
	var err error
	m.conn, err = nats.Connect("", nats.InProcessServer(s), nats.UserInfo(ownUser, g.own), nats.Name("hub"), nats.MaxReconnects(-1))
	if err != nil {
		return nil, ui.Failure(fmt.Errorf("hub: its own connection: %w", err), "")
	}
	if m.js, err = jetstream.New(m.conn); err != nil {
		m.close()
		return nil, ui.Failure(fmt.Errorf("hub: its own connection: %w", err), "")
	}
	return m, nil
}

// serve starts to answer requests of hosts. room reports whether there is memory for one more stream.
func (m *maker) serve(room func() bool) error {
	m.room = room
	_, err := m.conn.Subscribe(hub.AllMake, m.take)
	if err == nil {
		_, err = m.conn.Subscribe(hub.AllRead, m.take)
	}
	if err == nil {
		err = m.conn.FlushTimeout(makeTime)
	}
	if err != nil {
		return ui.Failure(fmt.Errorf("hub: its own connection: %w", err), "")
	}
	return nil
}

func (m *maker) close() {
	m.conn.Close() // first, so that no request arrives any more and a request under way fails at once
	m.work.Wait()
}

// within calls do with a context that ends after makeTime, the time limit for the server's answer.
func (m *maker) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	return do(ctx)
}

var errFull = errors.New("its memory is full: give it more, as in achbridge hub --memory 1GiB")

var errTooMany = fmt.Errorf("there are %d channels of this host at the hub already, which is the most", maxChannels)

func (m *maker) makeStream(host, channel string) error {
	if channel == "" || len(channel) > maxChannelName {
		return errors.New("the request names no channel")
	}
	m.mu.Lock()
	r := m.of(host)
	known, again := len(r.made), r.made[channel]
	m.mu.Unlock()
	if known >= maxChannels && !again {
		return errTooMany
	}
	if !again && !m.room() {
		return errFull
	}
	err := m.within(context.Background(), func(ctx context.Context) error {
		_, err := m.js.CreateStream(ctx, hub.StreamOf(host, channel))
		return err
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r.made[channel] = true
	return nil
}

// makeConsumer creates the only consumer of a host on a stream.
func (m *maker) makeConsumer(host string, request []byte) error {
	stream, isFirst := hub.ParseRead(request)
	config, err := hub.ConsumerOf(host, stream)
	if err != nil {
		return err
	}
	return m.within(context.Background(), func(ctx context.Context) error {
		if isFirst {
			if err := m.js.DeleteConsumer(ctx, stream, config.Name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
				return err
			}
		}
		_, err := m.js.CreateConsumer(ctx, stream, config)
		return err
	})
}

// purge deletes the frames of a stream. The stream stays and can take new frames.
func (m *maker) purge(ctx context.Context, s kept) error {
	stream, err := m.js.Stream(ctx, s.stream)
	if err == nil {
		err = stream.Purge(ctx)
	}
	return err
}
