package testnet_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"achbridge/bridge/achd"
	"achbridge/localach"
	"achbridge/testnet/hosts"
)

// A slow client of achd that asks for the newest (get-last 1) is about as fresh as that of
// the simplest sender there can be: one connection on which the newest frame is written
// whenever nothing is unacknowledged. Frames of 1 kB at 1 kHz, 1 Mbit/s, 20 ms there and back.
func TestSlowClientOfAchdIsAsFreshAsOfTheSimplestSender(t *testing.T) {
	longRun(t)
	realHosts(t)
	const size, turn, turns = 1024, 5 * time.Second, 3
	lab := hosts.StartTest(t, hosts.Config{Hosts: []string{"robot", "pc"}, Link: "delay=10ms,rate=1mbit"})
	robot, err := lab.Addr("robot")
	if err != nil {
		t.Fatal(err)
	}
	f := newFeed(t, size)
	served := f.serve(inNetworkOf(t, lab, "robot", listenAt("8076")))
	f.write(inNetworkOf(t, lab, "robot", listenAt("8077")))

	ages := map[string]time.Duration{}
	for range turns {
		for _, port := range []string{"8076", "8077"} {
			conn := inNetworkOf(t, lab, "pc", func() (net.Conn, error) { return net.Dial("tcp", net.JoinHostPort(robot.String(), port)) })
			ages[port] += f.meanAge(conn, turn, port == "8076") / turns
			conn.Close()
			await(t, met, func() error {
				if n := len(served.Report().Clients); n > 0 {
					return fmt.Errorf("%d clients are there yet", n)
				}
				return nil
			})
		}
	}
	ratio := float64(ages["8076"]) / float64(ages["8077"])
	t.Logf("mean age: %v with achd's protocol, %v with the simplest sender: %.2f times", ages["8076"], ages["8077"], ratio)
	if ratio > 1.3 {
		t.Errorf("%.2f times as old as with the simplest sender, want 1.3 at most", ratio)
	}
}

// inNetworkOf makes a socket in the network of a host.
func inNetworkOf[S any](t *testing.T, lab *hosts.Lab, host string, open func() (S, error)) S {
	t.Helper()
	pid, err := lab.PID(host)
	if err != nil {
		t.Fatal(err)
	}
	var socket S
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		ns, err := netns.GetFromPid(pid)
		if err == nil {
			defer ns.Close()
			err = netns.Set(ns)
		}
		if err == nil {
			socket, err = open()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return socket
}

func listenAt(port string) func() (net.Listener, error) {
	return func() (net.Listener, error) { return net.Listen("tcp4", ":"+port) }
}

// feed puts a frame each millisecond; it begins with the time when it was made.
type feed struct {
	t      *testing.T
	start  time.Time
	dir    localach.Dir
	newest atomic.Pointer[[]byte]
	ctx    context.Context
	work   sync.WaitGroup
	size   int
}

func newFeed(t *testing.T, size int) *feed {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &feed{t: t, start: time.Now(), dir: localach.Dir(t.TempDir()), ctx: ctx, size: size}
	ch, err := f.dir.Create("imu", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 64, FrameSize: size}})
	if err != nil {
		t.Fatal(err)
	}
	w := ch.Writer()
	f.work.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			data := binary.LittleEndian.AppendUint64(make([]byte, 0, size), uint64(time.Since(f.start)))[:size]
			f.newest.Store(&data)
			if _, err := w.Put(data); err != nil {
				t.Errorf("put: %v", err)
				return
			}
			<-tick.C
		}
	})
	t.Cleanup(func() { cancel(); f.work.Wait(); w.Close(); ch.Close() })
	return f
}

// serve serves the frames by achd's protocol.
func (f *feed) serve(ln net.Listener) *achd.Server {
	watcher, err := localach.NewWatcher()
	if err != nil {
		f.t.Fatal(err)
	}
	s := achd.New(achd.Config{
		Dir: f.dir, Log: slog.New(slog.DiscardHandler), Command: func(string) bool { return false },
		Claim:   func(string, localach.Tag) (func(), error) { return nil, errors.New("nobody writes") },
		NewData: func(c *localach.Channel, news func(uint64, int)) func() { return watcher.Watch(c, news).Close },
	})
	s.SetRules(achd.Rules{From: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}, Channels: []string{"imu"}})
	f.work.Go(func() { _ = watcher.Run(f.ctx) })
	f.work.Go(func() {
		if err := s.Run(f.ctx, ln); err != nil {
			f.t.Errorf("server: %v", err)
		}
	})
	return s
}

// write is the simplest sender.
func (f *feed) write(ln net.Listener) {
	context.AfterFunc(f.ctx, func() { ln.Close() })
	f.work.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			f.work.Go(func() { // until the client has left
				_, _ = conn.Read(make([]byte, 1))
				conn.Close()
			})
			raw, err := conn.(syscall.Conn).SyscallConn()
			for waits := 0; err == nil && f.ctx.Err() == nil; {
				if e := raw.Control(func(fd uintptr) { waits, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); e != nil || err != nil {
					break
				}
				if waits > 0 {
					time.Sleep(100 * time.Microsecond)
					continue
				}
				_, err = conn.Write(*f.newest.Load())
			}
			conn.Close()
		}
	})
}

// meanAge is how old the newest frame of a client is, on average over d, once the first came.
func (f *feed) meanAge(conn net.Conn, d time.Duration, asks bool) time.Duration {
	f.t.Helper()
	_ = conn.SetDeadline(time.Now().Add(d + time.Minute))
	if asks {
		const answer = "frame-count: 64\nframe-size: 1024\nstatus: 0 # ACH_OK\n.\n"
		if _, err := io.WriteString(conn, "channel-name: imu\ntransport: tcp\nget-last: 1\ndirection: push\n.\n"); err != nil {
			f.t.Fatal(err)
		}
		got := make([]byte, len(answer))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != answer {
			f.t.Fatalf("got %q, %v, want %q", got, err, answer)
		}
	}
	head := 0
	if asks {
		head = 16
	}
	// Between two frames the age grows evenly: from one that was made at a and came at b until
	// the next comes at c it is (b-a + c-a)/2 on average.
	var sum, begin, made, came float64
	buf := make([]byte, head+f.size)
	for n := 0; ; n++ {
		if _, err := io.ReadFull(conn, buf); err != nil {
			f.t.Fatal(err)
		}
		now := float64(time.Since(f.start))
		if n == 0 {
			begin = now
		} else {
			sum += (now - came) * ((came - made) + (now - made)) / 2
		}
		made, came = float64(binary.LittleEndian.Uint64(buf[head:])), now
		if now-begin > float64(d) {
			return time.Duration(sum / (now - begin))
		}
	}
}
