package foxglove_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/cmd/achbridge/foxglove"
	"achbridge/testnet/viewer"
)

// oneConn is a listener that accepts the connections of a channel.
type oneConn chan net.Conn

func (l oneConn) Accept() (net.Conn, error) {
	if conn, ok := <-l; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (l oneConn) Close() error   { return nil }
func (l oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// A viewer behind 1 Mbit/s asks for a channel that has a frame of 1000 bytes each millisecond, 8 times what its link carries. In
// virtual time, the frames that arrive are hardly older than on an empty link, since no frames wait in the link's large buffer.
func TestSlowViewerGetsOnlyNewestFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			size  = 1000
			rate  = 1_000_000 // bit/s
			delay = 5 * time.Millisecond
			start = time.Second // the link is empty, and the slots are in use
		)
		s, err := foxglove.New(foxglove.Config{Name: "krang", Token: testToken, Origins: func() []string { return nil }, Node: &fakeNode{}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		feed := &foxglove.ClockFeed{Start: time.Now(), Size: size}
		s.AddTopic("imu", feed)
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { feed.Run(ctx) })
		conns := make(oneConn, 1)
		web := &http.Server{Handler: s}
		work.Go(func() { _ = web.Serve(conns) })

		ours, ourEnd := net.Pipe()
		theirs, theirEnd := net.Pipe()
		slowLink(&work, theirEnd, ourEnd, rate, delay)
		slowLink(&work, ourEnd, theirEnd, 100*rate, delay)
		conns <- theirs
		c := viewer.Connect(t, ours, "/?token="+testToken+"&rate=1000", subprotocols[1])
		c.Send(`{"op":"subscribe","subscriptions":[{"id":1,"channelId":%d}]}`, c.Channel("imu").ID)

		var sum, worst time.Duration
		var count int
		for began := time.Now(); time.Since(began) < 10*time.Second; {
			d := c.Data()
			if time.Since(began) < start {
				continue
			}
			age := time.Since(time.Unix(0, int64(binary.LittleEndian.Uint64(d.Payload))))
			sum, worst, count = sum+age, max(worst, age), count+1
		}
		least := delay + (13+size)*8*time.Second/rate
		mean := sum / time.Duration(count)
		t.Logf("%d frames, mean age %v, worst %v, least possible %v", count, mean, worst, least)
		if mean > least*3/2 || worst > 3*least {
			t.Errorf("got a mean age of %v and %v at worst, want at most 1.5 times and 3 times the least possible, %v", mean, worst, least)
		}
		if count < 9*50 {
			t.Errorf("got %d frames in 9 s, want at least half of what the link carries, %d", count, 9*rate/8/(13+size))
		}
		ours.Close()
		cancel()
		s.Stop()
		close(conns)
		web.Close()
		work.Wait()
	})
}

// slowLink copies bytes from one connection to another at a rate, after a delay. Like a socket and the modem behind it, it buffers
// 256 kB.
func slowLink(work *sync.WaitGroup, from, to net.Conn, bitsPerSecond int, delay time.Duration) {
	type chunk struct {
		data []byte
		due  time.Time
	}
	buffered, flying := make(chan []byte, 256), make(chan chunk, 1<<16)
	work.Go(func() {
		defer close(buffered)
		for {
			b := make([]byte, 1000)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			buffered <- b[:n]
		}
	})
	work.Go(func() {
		defer close(flying)
		for b := range buffered {
			time.Sleep(time.Duration(len(b)) * 8 * time.Second / time.Duration(bitsPerSecond))
			flying <- chunk{b, time.Now().Add(delay)}
		}
	})
	work.Go(func() {
		defer to.Close()
		for c := range flying {
			time.Sleep(time.Until(c.due))
			if _, err := to.Write(c.data); err != nil {
				for range flying {
				}
				return
			}
		}
	})
}
