package bridge

import (
	"context"
	"errors"
	"net"
)

// Hub reaches hosts to which there is no path. Its operator is an adversary: all that it carries
// is sealed or within TLS.
type Hub interface {
	// Dial begins a reliable byte stream to a host; it fails at once, with ErrHubAway,
	// without a connection to the hub. Accept takes one that another host began. Closing a stream, a lost or doubled message,
	// or the end of the connection ends it at both ends. Deadlines work, since crypto/tls needs them.
	Dial(ctx context.Context, host string) (net.Conn, error)
	Accept(ctx context.Context) (net.Conn, error)
	// Channel is the place of a channel's newest frame at the hub. It does not block.
	Channel(host, channel string) HubChannel
}

// HubChannel is the place of one channel's newest frame at the hub. One goroutine may call Room and
// Put, and another one Next; Close ends all.
type HubChannel interface {
	// Room blocks until a frame of size bytes would leave at once, so that the newest one can be
	// copied then. Without a connection to the hub it fails at once.
	Room(ctx context.Context, size int) error
	// Put has b stored as the channel's newest frame, after those of the calls before. It returns
	// when b is on its way and the caller's again, and acked then has room for the hub's word: nil,
	// or why b may not be there. The word comes within some seconds, also when the connection ends.
	// Put keeps nothing to be sent later: without a connection it fails at once. A frame that the hub
	// would never take is an error that wraps ErrHubTooLarge.
	Put(ctx context.Context, b []byte) (acked <-chan error, err error)
	// Next blocks until the next frame comes or ctx ends; of several that came since the last call it
	// returns the newest. It keeps up to three pulls of one message outstanding, and may wait for a
	// connection or fail without one; the first frame of a connection may have come before. The slice
	// is the caller's.
	Next(ctx context.Context) ([]byte, error)
	Close()
}

var (
	// ErrHubTooLarge says that a frame is larger than the messages that the hub takes.
	ErrHubTooLarge = errors.New("larger than the hub takes")
	// ErrHubAway says that there is no connection to the hub, which the node then tells of no single host.
	ErrHubAway = errors.New("no connection to the hub")
)
