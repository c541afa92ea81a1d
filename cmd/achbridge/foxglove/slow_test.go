package foxglove_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"net/http"
	"strings"
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

// slowWorld is a server in virtual time, with a channel that has a frame each millisecond.
type slowWorld struct {
	server *foxglove.Server
	feed   *foxglove.ClockFeed
	conns  oneConn
	work   sync.WaitGroup
	log    bytes.Buffer
}

// runSlowly runs a test with a server in virtual time.
func runSlowly(t *testing.T, size int, test func(t *testing.T, w *slowWorld)) {
	synctest.Test(t, func(t *testing.T) {
		w := &slowWorld{conns: make(oneConn, 1), feed: &foxglove.ClockFeed{Start: time.Now(), Size: size}}
		var err error
		if w.server, err = foxglove.New(foxglove.Config{
			Name: "krang", Token: testToken, Origins: func() []string { return nil }, Node: &fakeNode{}, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		}); err != nil {
			t.Fatal(err)
		}
		w.server.AddTopic("imu", w.feed)
		ctx, cancel := context.WithCancel(t.Context())
		w.work.Go(func() { w.feed.Run(ctx) })
		web := &http.Server{Handler: w.server}
		w.work.Go(func() { _ = web.Serve(w.conns) })
		test(t, w)
		cancel()
		w.server.Stop()
		close(w.conns)
		web.Close()
		w.work.Wait()
	})
}

// A viewer behind 1 Mbit/s asks for a channel that has a frame each millisecond, many times what its link carries. In virtual time,
// the frames that arrive are hardly older than on an empty link, since no frames wait in the link's large buffer.
func TestSlowViewerGetsOnlyNewestFrames(t *testing.T) {
	const (
		rate  = 1_000_000 // bit/s
		delay = 5 * time.Millisecond
	)
	for _, c := range []struct {
		size   int
		start  time.Duration // after which the slots are in use
		window time.Duration
	}{{1000, time.Second, 9 * time.Second}, {2_000_000, 100 * time.Second, 400 * time.Second}} {
		runSlowly(t, c.size, func(t *testing.T, w *slowWorld) {
			ours, ourEnd := net.Pipe()
			theirs, theirEnd := net.Pipe()
			slowLink(&w.work, theirEnd, ourEnd, rate, delay)
			slowLink(&w.work, ourEnd, theirEnd, 100*rate, delay)
			w.conns <- theirs
			v := viewer.Connect(t, ours, "/?token="+testToken+"&rate=1000", subprotocols[1])
			v.Send(`{"op":"subscribe","subscriptions":[{"id":1,"channelId":%d}]}`, v.Channel("imu").ID)

			var sum, worst time.Duration
			var count int
			for began := time.Now(); time.Since(began) < c.start+c.window; {
				d := v.Data()
				if time.Since(began) < c.start {
					continue
				}
				age := time.Since(time.Unix(0, int64(binary.LittleEndian.Uint64(d.Payload))))
				sum, worst, count = sum+age, max(worst, age), count+1
			}
			transfer := time.Duration(13+c.size) * 8 * time.Second / rate
			least, mean := delay+transfer, sum/time.Duration(count)
			t.Logf("%d bytes: %d frames, mean age %v, worst %v, least possible %v", c.size, count, mean, worst, least)
			if mean > least*3/2 || worst > 3*least {
				t.Errorf("got a mean age of %v and %v at worst, want at most 1.5 times and 3 times the least possible, %v", mean, worst, least)
			}
			if most := int(c.window / transfer); count < most/2 {
				t.Errorf("got %d frames in %v, want at least half of what the link carries, %d", count, c.window, most)
			}
			ours.Close()
		})
	}
}

func TestViewerWithoutPongsIsDisconnected(t *testing.T) {
	runSlowly(t, 100, func(t *testing.T, w *slowWorld) {
		ours, theirs := net.Pipe()
		w.conns <- theirs
		v := viewer.Connect(t, ours, "/?token="+testToken, subprotocols[0])
		v.Send(`{"op":"subscribe","subscriptions":[{"id":1,"channelId":%d}]}`, v.Channel("imu").ID)
		v.Data()
		v.NoPongs = true
		began := time.Now()
		e := v.End()
		if passed := time.Since(began); e.Code != 1008 || e.Reason != "the viewer does not answer in time" || passed > 32*time.Second {
			t.Errorf("got %v after %v, want code 1008 with the reason after 30 s", e, passed)
		}
	})
}

func TestStalledViewerIsDisconnected(t *testing.T) {
	runSlowly(t, 100, func(t *testing.T, w *slowWorld) {
		ours, theirs := net.Pipe()
		w.conns <- theirs
		v := viewer.Connect(t, ours, "/?token="+testToken, subprotocols[0])
		v.Send(`{"op":"subscribe","subscriptions":[{"id":1,"channelId":%d}]}`, v.Channel("imu").ID)
		time.Sleep(35 * time.Second)
		synctest.Wait()
		if text := w.log.String(); !strings.Contains(text, `msg="viewer disconnected" addr=pipe reason="the viewer does not answer in time"`) {
			t.Errorf("got log %s, want that the viewer was disconnected", text)
		}
		ours.Close()
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
