package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"achbridge/bridge/hub"
	"achbridge/bridge/logline"
	"achbridge/cmd/achbridge/ui"
)

// maker makes the streams of channels when their hosts ask for it: hosts themselves may
// neither make nor change nor delete one. It answers with nothing, or with why not.
type maker struct {
	log   *slog.Logger
	guard *guard
	conn  *nats.Conn
	js    jetstream.JetStream
	room  func() bool // for one more

	began   time.Time
	refused logline.Limit // only answer uses it

	mu   sync.Mutex
	made map[string]map[string]bool // channels, by host
}

const (
	// maxChannels is how many streams a host may have.
	maxChannels = 1000
	// maxChannelName is as Ach has it.
	maxChannelName = 255
	makeTime       = 5 * time.Second
)

// newMaker returns a maker that does not answer yet: see serve.
func newMaker(s *server.Server, g *guard, log *slog.Logger) (*maker, error) {
	m := &maker{log: log, guard: g, room: func() bool { return true }, began: time.Now(), refused: logline.Limit{Burst: 5, Period: 10 * time.Second}, made: map[string]map[string]bool{}}
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

// serve has hosts answered from now on, as long as there is room.
func (m *maker) serve(room func() bool) error {
	m.room = room
	_, err := m.conn.Subscribe(hub.AllMake, m.answer)
	if err == nil {
		err = m.conn.FlushTimeout(makeTime)
	}
	if err != nil {
		return ui.Failure(fmt.Errorf("hub: its own connection: %w", err), "")
	}
	return nil
}

func (m *maker) close() { m.conn.Close() }

func (m *maker) answer(request *nats.Msg) {
	// The hub may publish to any subject: it answers a host in its own inbox alone. What a
	// host has delivered to this subject keeps the one it had.
	host, err := hub.HostOf(request.Subject)
	if err != nil || request.Subject != hub.MakeOf(host) || !strings.HasPrefix(request.Reply, hub.InboxPrefix(host)+".") {
		return
	}
	text := ""
	if err := m.make(host, string(request.Data)); err != nil {
		text = err.Error()
		if count, due := m.refused.Cause(time.Since(m.began)); due {
			m.log.Warn("stream not made", "host", host, "err", err, "count", count)
		}
	}
	_ = request.Respond([]byte(text)) // who asked is gone, or it works
}

var errFull = errors.New("its memory is full: start it with more, as in achbridge hub --memory 1GiB")

var errTooMany = fmt.Errorf("there are %d channels of this host at the hub already, which is the most", maxChannels)

func (m *maker) make(host, channel string) error {
	if channel == "" || len(channel) > maxChannelName {
		return errors.New("the request names no channel")
	}
	m.mu.Lock()
	known := len(m.made[host])
	again := m.made[host][channel]
	m.mu.Unlock()
	if known >= maxChannels && !again {
		return errTooMany
	}
	if !again && !m.room() {
		return errFull
	}
	ctx, cancel := context.WithTimeout(context.Background(), makeTime)
	defer cancel()
	if _, err := m.js.CreateStream(ctx, hub.StreamOf(host, channel)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made[host] == nil {
		m.made[host] = map[string]bool{}
	}
	m.made[host][channel] = true
	return nil
}

// purge empties a stream: the next frame fills it again.
func (m *maker) purge(ctx context.Context, s kept) error {
	stream, err := m.js.Stream(ctx, s.stream)
	if err == nil {
		err = stream.Purge(ctx)
	}
	return err
}

// forget deletes the streams of a host that was removed.
func (m *maker) forget(host string) {
	m.mu.Lock()
	channels := m.made[host]
	delete(m.made, host)
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), makeTime)
	defer cancel()
	for channel := range channels {
		if err := m.js.DeleteStream(ctx, hub.StreamName(host, channel)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			m.log.Warn("stream of a removed host not deleted", "host", host, "err", err)
		}
	}
}
