package demo

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/status"
	"achbridge/localach"
)

// stampSize is the size of the first two fields of a demo frame: its number and the time of its put,
// in ns of CLOCK_MONOTONIC, both little-endian u64.
const stampSize = 16

func monotonic() int64 { return int64(status.Monotonic(time.Now())) }

// publisher puts frames into a channel at a steady rate.
type publisher struct {
	dir    localach.Dir
	name   string
	size   int
	period time.Duration
	stop   atomic.Bool // no more frames; run goes on until its context ends
	sent   uint64
}

func (p *publisher) run(ctx context.Context) error {
	ch, err := p.dir.Open(p.name)
	if err != nil {
		return err
	}
	defer ch.Close()
	w := ch.Writer()
	defer w.Close()
	frame := make([]byte, p.size)
	return every(ctx, p.period, func() error {
		if p.stop.Load() {
			return nil
		}
		binary.LittleEndian.PutUint64(frame, p.sent+1)
		binary.LittleEndian.PutUint64(frame[8:], uint64(monotonic()))
		if _, err := w.Put(frame); err != nil {
			return err
		}
		p.sent++
		return nil
	})
}

// ageMeter is a reader of a mirror that knows nothing of the bridge. It looks
// at the mirror every 0.7 ms, takes every frame it has not seen in order, and
// notes how old the newest one is at that instant: so the mean of its samples
// is the mean over time, the age of information.
type ageMeter struct {
	dir       localach.Dir
	name      string
	isStopped atomic.Bool // nothing new is put: frames still count, ages do not

	frames, backwards uint64
	lastNumber        uint64
	lastStamp         int64

	mu      sync.Mutex
	samples []int64 // ages in ns, all of the run
	shown   int     // samples and frames that window has reported
	shownF  uint64
}

const (
	agePeriod = 700 * time.Microsecond
	warmUp    = 200 * time.Millisecond
)

func (m *ageMeter) run(ctx context.Context) error {
	ch, err := m.dir.Open(m.name)
	if err != nil {
		return err
	}
	defer ch.Close()
	r := ch.Reader()
	g := ch.Geometry()
	buf := make([]byte, g.FrameCount*g.FrameSize)
	begin := monotonic()
	return every(ctx, agePeriod, func() error {
		for {
			n, err := r.NextOldest(buf, 0)
			if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, localach.ErrBusy) {
				break
			}
			if err != nil {
				return err
			}
			m.see(buf[:n])
		}
		if now := monotonic(); m.lastStamp != 0 && now-begin > int64(warmUp) && !m.isStopped.Load() {
			m.mu.Lock()
			m.samples = append(m.samples, now-m.lastStamp)
			m.mu.Unlock()
		}
		return nil
	})
}

func (m *ageMeter) see(frame []byte) {
	if len(frame) < stampSize {
		return
	}
	number := binary.LittleEndian.Uint64(frame)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frames++
	if number <= m.lastNumber {
		m.backwards++
		return
	}
	m.lastNumber, m.lastStamp = number, int64(binary.LittleEndian.Uint64(frame[8:]))
}

// window returns the frames and ages since it was last called.
func (m *ageMeter) window() (frames uint64, age ageInMs) {
	m.mu.Lock()
	defer m.mu.Unlock()
	frames, age = m.frames-m.shownF, figures(m.samples[m.shown:])
	m.shown, m.shownF = len(m.samples), m.frames
	return frames, age
}

func (m *ageMeter) total() ageInMs {
	m.mu.Lock()
	defer m.mu.Unlock()
	return figures(m.samples)
}

func (m *ageMeter) seen() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastNumber
}

// pauseUntilQuiet lets the last frames arrive: until nothing new came for
// 100 ms, at most 1 s.
func pauseUntilQuiet(ctx context.Context, meters []*ageMeter) {
	var before uint64
	for range 10 {
		var now uint64
		for _, m := range meters {
			now += m.seen()
		}
		if now == before {
			return
		}
		before = now
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// udpLoop measures what a bare UDP packet of 64 bytes takes over loopback.
type udpLoop struct {
	mu      sync.Mutex
	samples []int64
}

func (u *udpLoop) run(ctx context.Context) error {
	in, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	out, err := net.DialUDP("udp4", nil, in.LocalAddr().(*net.UDPAddr))
	if err != nil {
		in.Close()
		return err
	}
	defer out.Close()
	var reader sync.WaitGroup
	reader.Go(func() {
		buf := make([]byte, 64)
		for {
			if _, err := in.Read(buf); err != nil {
				return
			}
			took := monotonic() - int64(binary.LittleEndian.Uint64(buf))
			u.mu.Lock()
			u.samples = append(u.samples, took)
			u.mu.Unlock()
		}
	})
	defer reader.Wait()
	defer in.Close()
	packet := make([]byte, 64)
	return every(ctx, 10*time.Millisecond, func() error {
		binary.LittleEndian.PutUint64(packet, uint64(monotonic()))
		_, err := out.Write(packet)
		return err
	})
}

func (u *udpLoop) quantiles() quantiles {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := figures(u.samples)
	return quantiles{P50: f.P50, P99: f.P99}
}

// figures sums up ages given in nanoseconds.
func figures(samples []int64) ageInMs {
	if len(samples) == 0 {
		return ageInMs{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	var sum float64
	for _, s := range sorted {
		sum += float64(s)
	}
	at := func(q float64) float64 { return float64(sorted[int(q*float64(len(sorted)-1))]) / 1e6 }
	return ageInMs{Mean: sum / float64(len(sorted)) / 1e6, P50: at(0.50), P99: at(0.99), Max: at(1)}
}

// every calls f once a period until ctx ends, by a timerfd: time.Sleep below a
// millisecond takes a millisecond.
func every(ctx context.Context, period time.Duration, f func() error) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return err
	}
	timer := os.NewFile(uintptr(fd), "timerfd")
	defer timer.Close()
	spec := unix.NsecToTimespec(int64(period))
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: spec, Value: spec}, nil); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { timer.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var expired [8]byte
	for {
		if _, err := timer.Read(expired[:]); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
}
