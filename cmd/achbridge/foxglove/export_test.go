package foxglove

import (
	"context"
	"encoding/binary"
	"sync"
	"time"
)

// ClockFeed is a channel with a frame each millisecond. A frame is its own number.
type ClockFeed struct {
	subscribers
	Start  time.Time
	Size   int
	mu     sync.Mutex
	number uint64
}

func (f *ClockFeed) next(last uint64) (message, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.Start.Add(time.Duration(f.number) * time.Millisecond)
	data := binary.LittleEndian.AppendUint64(nil, uint64(at.UnixNano()))
	return message{number: f.number, at: at, data: append(data, make([]byte, f.Size-8)...)}, f.number != last
}

func (f *ClockFeed) problem() string { return "" }

func (f *ClockFeed) Run(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.mu.Lock()
			f.number++
			f.mu.Unlock()
			_ = f.offer()
		case <-ctx.Done():
			return
		}
	}
}

// AddTopic adds a topic with a feed of a test.
func (s *Server) AddTopic(name string, f *ClockFeed) {
	s.catalog.own = append(s.catalog.own, &topic{converter: converter{description: description{Topic: name, Encoding: "octet"}}, feed: f})
}

// Stop ends the viewers of a server without Run.
func (s *Server) Stop() {
	s.stop()
	s.work.Wait()
}

// Sources returns the number of channels that are read.
func (s *Server) Sources() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sources)
}
