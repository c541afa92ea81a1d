package hub

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// MaxPayload is the size of the largest message that a hub of ours carries, in bytes.
	MaxPayload = 8 << 20
	// maxReaders is how many consumers a stream may have.
	maxReaders = 1000
	// leastWindow is the shortest time for which a server remembers message ids.
	leastWindow = 100 * time.Millisecond
)

// StreamOf is the stream that keeps the newest frame of a channel, in memory and nothing else.
func StreamOf(host, channel string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              StreamName(host, channel),
		Subjects:          []string{FrameSubject(host, channel)},
		Storage:           jetstream.MemoryStorage,
		Discard:           jetstream.DiscardOld,
		MaxMsgs:           1,
		MaxMsgsPerSubject: 1,
		MaxConsumers:      maxReaders,
		Duplicates:        leastWindow,
		Replicas:          1,
	}
}
