package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

const (
	stampSize  = 16
	frameCount = 16 // libach's default
	maxRate    = 10_000
	maxSize    = 64 << 20
)

// stream is one channel to publish, with its rate in frames a second and its frame size.
type stream struct {
	Name string
	Rate float64
	Size int
}

// parseStream parses "imu:1000:64".
func parseStream(text string) (stream, error) {
	fields := strings.Split(text, ":")
	if len(fields) != 3 {
		return stream{}, errors.New("want NAME:HZ:BYTES, like imu:1000:64")
	}
	if err := localach.CheckName(fields[0]); err != nil {
		return stream{}, err
	}
	rate, err := strconv.ParseFloat(fields[1], 64)
	if err != nil || !(rate > 0 && rate <= maxRate) {
		return stream{}, fmt.Errorf("rate %q: want more than 0 and at most %d a second", fields[1], maxRate)
	}
	size, err := strconv.Atoi(fields[2])
	if err != nil || size < stampSize || size > maxSize {
		return stream{}, fmt.Errorf("size %q: want %d (the stamp) to %d bytes", fields[2], stampSize, maxSize)
	}
	return stream{Name: fields[0], Rate: rate, Size: size}, nil
}

// open creates the channel, or opens an existing one if the frames fit into it.
func (s stream) open(dir localach.Dir) (*feed, error) {
	wanted := localach.Geometry{FrameCount: frameCount, FrameSize: s.Size}.Grow()
	channel, err := dir.Create(s.Name, localach.CreateConfig{Geometry: wanted})
	if errors.Is(err, fs.ErrExist) {
		channel, err = dir.Open(s.Name)
	}
	if err != nil {
		return nil, err
	}
	if got := channel.Geometry(); got.FrameSize < s.Size {
		return nil, errors.Join(
			fmt.Errorf("channel %s: is there with frames of %d bytes, too small for %d; remove it first", s.Name, got.FrameSize, s.Size),
			channel.Close())
	}
	return &feed{stream: s, dir: dir, channel: channel}, nil
}

// feed is a stream with its open channel.
type feed struct {
	stream
	dir     localach.Dir
	channel *localach.Channel
}

// run puts a frame per period until ctx ends, and then logs its counts. It skips missed
// periods, since a reader of the newest frame would see only one of two frames at once.
func (f *feed) run(ctx context.Context, log *slog.Logger) error {
	beat, err := newMetronome(time.Duration(float64(time.Second) / f.Rate))
	if err != nil {
		return err
	}
	defer beat.close()
	defer context.AfterFunc(ctx, beat.interrupt)()

	writer := f.channel.Writer()
	frame := make([]byte, f.Size)
	next, warnedAt, result := f.channel.LastSeq()+1, time.Time{}, putCounts{}
	for ctx.Err() == nil {
		if err := beat.wait(); errors.Is(err, os.ErrDeadlineExceeded) {
			break
		} else if err != nil {
			return err
		}
		stamp(frame, next)
		begin := time.Now()
		seq, err := writer.Put(frame)
		result.add(time.Since(begin), err)
		if err == nil {
			next = seq + 1
		} else if time.Since(warnedAt) > time.Second {
			log.Warn("put failed", "channel", f.Name, "err", err, "count", result.failed)
			warnedAt = time.Now()
		}
	}
	log.Info("published", "channel", f.Name, "count", result.count, "failed", result.failed, "worst_put", result.worst)
	return writer.Close()
}

// putCounts counts the puts of a feed.
type putCounts struct {
	count, failed int
	worst         time.Duration // longest duration of a put, also of one that failed
}

func (t *putCounts) add(took time.Duration, err error) {
	t.count++
	if err != nil {
		t.failed++
	}
	t.worst = max(t.worst, took)
}

// remove removes the channel, as a robot does that shuts down.
func (f *feed) remove(log *slog.Logger) {
	if err := errors.Join(f.channel.Close(), f.dir.Unlink(f.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("channel not removed", "channel", f.Name, "err", err)
	}
}

// stamp writes the sequence number and the current time at the start of frame.
func stamp(frame []byte, seq uint64) {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail, since clock and pointer are valid
	binary.LittleEndian.PutUint64(frame, seq)
	binary.LittleEndian.PutUint64(frame[8:], uint64(now.Nano()))
}

// metronome is a timerfd, which is exact to a few microseconds. A time.Timer may be up to
// a millisecond late.
type metronome struct {
	file *os.File
	late [8]byte
}

func newMetronome(period time.Duration) (*metronome, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	m := &metronome{file: os.NewFile(uintptr(fd), "timerfd")}
	every := unix.NsecToTimespec(int64(period))
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: every, Value: every}, nil); err != nil {
		m.close()
		return nil, os.NewSyscallError("timerfd_settime", err)
	}
	return m, nil
}

// wait blocks until the next beat. After interrupt it returns os.ErrDeadlineExceeded.
func (m *metronome) wait() error {
	_, err := m.file.Read(m.late[:])
	return err
}

func (m *metronome) interrupt() { _ = m.file.SetReadDeadline(time.Unix(1, 0)) }
func (m *metronome) close()     { _ = m.file.Close() }
