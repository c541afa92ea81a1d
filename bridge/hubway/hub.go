package hubway

import (
	"context"
	"errors"
	"net"
)

// Hub reaches hosts to which there is no path. Its operator is an adversary: all that it carries is sealed or within TLS.
type Hub interface {
	// Dial begins a reliable byte stream to a host; it fails at once, with ErrAway, without a connection to the hub. Accept
	// takes one that another host began. Closing a stream, a lost or doubled message, or the end of the connection ends it at
	// both ends. Deadlines work, since crypto/tls needs them.
	Dial(ctx context.Context, host string) (net.Conn, error)
	Accept(ctx context.Context) (net.Conn, error)
	// Channel returns the place of a channel's newest frame at the hub. It does not block.
	Channel(host, channel string) Channel
}

// Channel is the place of one channel's newest frame at the hub. One goroutine may call Room and Put, and another one Next;
// Close ends all.
type Channel interface {
	// Room blocks until a frame of size bytes would leave at once, so that the newest one can be copied then. Without a
	// connection to the hub it fails at once.
	Room(ctx context.Context, size int) error
	// Put has b stored as the channel's newest frame, after those of the calls before. It returns when b is on its way and the
	// caller's again. acked then receives the hub's acknowledgement within some seconds, also if the connection ends: nil, or
	// why b may not be there. Put keeps nothing to be sent later: without a connection it fails at once. A frame that the hub
	// would never take is an error that wraps ErrTooLarge.
	Put(ctx context.Context, b []byte) (acked <-chan error, err error)
	// Next blocks until the next frame arrives or ctx ends; of several that arrived since the last call it returns the newest.
	// It keeps up to three fetches of one message outstanding, and may wait for a connection or fail without one. The first
	// frame of a connection may have arrived before. The slice is the caller's.
	Next(ctx context.Context) ([]byte, error)
	Close()
}

var (
	// ErrTooLarge says that a frame is larger than the messages that the hub takes.
	ErrTooLarge = errors.New("larger than the hub takes")
	// ErrAway says that there is no connection to the hub. The node reports that once, and not for each host.
	ErrAway = errors.New("no connection to the hub")
)
