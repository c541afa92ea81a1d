package hub

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"achbridge/bridge/hub"
	"achbridge/cmd/achbridge/service"
)

// forget schedules the streams and consumers of a removed host for deletion by clean.
func (m *maker) forget(host string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.hosts, host)
	m.removed[host] = true
}

// clean deletes streams and consumers of removed hosts, until ctx ends. It retries until none of a host is left.
func (m *maker) clean(ctx context.Context, s *server.Server) error {
	return service.Repeat(ctx, readEvery, func() {
		m.mu.Lock()
		hosts := slices.Collect(maps.Keys(m.removed))
		m.mu.Unlock()
		for _, host := range hosts {
			if m.cleanHost(ctx, s, host) || m.guard.has(host) { // a host that was added again keeps its new streams
				m.mu.Lock()
				delete(m.removed, host)
				m.mu.Unlock()
			}
		}
	})
}

// cleanHost deletes the streams of a host, and its consumers on the streams of others. It reports whether there was none to delete.
func (m *maker) cleanHost(ctx context.Context, s *server.Server, host string) (isClean bool) {
	z, err := s.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Consumer: true})
	if err != nil {
		return false // the server is stopping
	}
	isClean = true
	remove := func(err error) {
		isClean = false
		if err != nil && ctx.Err() == nil && !errors.Is(err, jetstream.ErrStreamNotFound) && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			m.log.Warn("cannot delete streams of a removed host, trying again", "host", host, "err", err)
		}
	}
	for _, detail := range z.AccountDetails {
		for _, stream := range detail.Streams {
			if owner, err := hub.OwnerOf(stream.Name); err == nil && owner == host {
				remove(m.within(ctx, func(ctx context.Context) error { return m.js.DeleteStream(ctx, stream.Name) }))
				continue
			}
			for _, consumer := range stream.Consumer {
				if consumer.Name == hub.ConsumerName(host) {
					remove(m.within(ctx, func(ctx context.Context) error { return m.js.DeleteConsumer(ctx, stream.Name, consumer.Name) }))
				}
			}
		}
	}
	return isClean
}
