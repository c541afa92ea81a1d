package hub

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// MaxPayload is the size of the largest message that a hub of ours carries, in bytes.
	MaxPayload = 8 << 20
	// maxReaders is the maximum number of a stream's consumers.
	maxReaders = 1000
	// leastWindow is the shortest time for which a server stores message ids.
	leastWindow = 100 * time.Millisecond
)

// StreamOf returns the configuration of the stream that keeps only the newest frame of a channel,
// in memory.
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
