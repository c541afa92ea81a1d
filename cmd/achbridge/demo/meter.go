package demo

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"achbridge/bridge/status"
	"achbridge/localach"
)

// stampSize is the size of the first two fields of a demo frame: its number and the time of its put,
// in ns of CLOCK_MONOTONIC, both little-endian u64.
const stampSize = 16

func monotonic() int64 { return int64(status.Monotonic(time.Now())) }

// meters write the robot's channels and read the PC's mirrors.
type meters struct {
	publishers []*publisher
	ages       []*ageMeter
	loop       *udpLoop
}

// measure starts the meters.
func (d *pair) measure(start starter) *meters {
	m := &meters{loop: &udpLoop{}}
	start(m.loop.run)
	for _, c := range channels {
		p := &publisher{dir: d.robot.dir, channel: c}
		a := &ageMeter{dir: d.pc.dir, name: d.mirror(c)}
		m.publishers, m.ages = append(m.publishers, p), append(m.ages, a)
		start(p.run)
		start(a.run)
	}
	return m
}

// finish stops the publishers and lets the last frames arrive.
func (m *meters) finish() {
	for i, a := range m.ages {
		a.isStopped.Store(true)
		m.publishers[i].stop.Store(true)
	}
	pauseUntilQuiet(m.ages)
}

// report returns the results. The meters must have ended.
func (m *meters) report(wait float64, length time.Duration) Report {
	r := Report{UDPLoop: m.loop.quantiles(), Wait: wait, tooShort: length < enoughTime}
	for i, p := range m.publishers {
		a := m.ages[i]
		r.Channels = append(r.Channels, channelFigures{Channel: p.name, Sent: p.sent, Delivered: a.frames, Age: a.total(), backwards: a.backwards})
	}
	r.OK = r.Fault() == nil
	return r
}

// meanWait is the mean of the shares that localach.CPUWait measures.
type meanWait struct {
	cpu   localach.CPUWait
	sum   float64
	count int
}

// newMeanWait returns a meanWait that samples often enough for a demo shorter than a second: the pause of pauseUntilQuiet at its end is
// long enough for one more sample.
func newMeanWait() meanWait { return meanWait{cpu: localach.CPUWait{Every: quiet}} }

func (w *meanWait) sample() {
	if share, known := w.cpu.Share(time.Duration(monotonic())); known {
		w.sum += share
		w.count++
	}
}

// share returns the mean. known is false if there was no sample, as on a kernel without schedstat.
func (w *meanWait) share() (mean float64, known bool) {
	return w.sum / float64(max(1, w.count)), w.count > 0
}

// publisher puts frames into a channel at a steady rate. The frames cannot be compressed, like those of a camera.
type publisher struct {
	dir localach.Dir
	channel
	stop atomic.Bool // true means that run puts no more frames, but waits until its context ends
	sent uint64
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
	_, _ = rand.Read(frame) // never fails
	return localach.Every(ctx, p.period, func() error {
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

// ageMeter reads a mirror as a program would. Every 0.7 ms it reads all new frames in order, and samples the age of the newest one.
// So the mean of the samples is the mean age over time (age of information).
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
	return localach.Every(ctx, agePeriod, func() error {
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

// quiet is the time after which a channel without a new frame is assumed to get none.
const quiet = 100 * time.Millisecond

// pauseUntilQuiet blocks until the last frames have arrived: until each mirror has a frame, and none got a new one for quiet. It
// blocks for at most twenty times quiet.
func pauseUntilQuiet(meters []*ageMeter) {
	seen := func() (sum uint64, all bool) {
		all = true
		for _, m := range meters {
			n := m.seen()
			sum, all = sum+n, all && n > 0
		}
		return sum, all
	}
	before, _ := seen()
	for range 20 {
		time.Sleep(quiet)
		now, all := seen()
		if all && now == before {
			return
		}
		before = now
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
	return localach.Every(ctx, 10*time.Millisecond, func() error {
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
