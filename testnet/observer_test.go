package testnet_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// asObserver is the environment variable that makes this test binary an observer: a
// program on a host that reads publishers' channels or their mirrors and prints the
// frames, one per line. Its arguments are views:
//
//	keep:CHANNEL    reads every frame through one handle, until it fails
//	reopen:CHANNEL  repeatedly opens the channel, reads the newest frame and closes it
const asObserver = "ACHBRIDGE_TEST_OBSERVER"

// observedFrame is a frame that a view has seen, or an error.
type observedFrame struct {
	View  string `json:"view"`
	Time  int64  `json:"t"`     // when it was seen, in ns of CLOCK_MONOTONIC, which all hosts share
	Since int64  `json:"since"` // last time at which keep found no newer frame, as Time; the frame was put after that
	Inode uint64 `json:"inode"` // inode of the channel's file
	Seq   uint64 `json:"seq"`   // sequence number in this file
	Stamp uint64 `json:"stamp"` // sequence number of the publisher
	Put   int64  `json:"put"`   // when the publisher put it, as Time
	Size  int    `json:"size"`  // in bytes
	Err   string `json:"err"`   // set instead of the other fields
}

// observe runs the views until the process is killed, and returns the exit code.
func observe(views []string) int {
	var out sync.Mutex
	enc := json.NewEncoder(os.Stdout)
	var work sync.WaitGroup
	for _, name := range views {
		how, channel, _ := strings.Cut(name, ":")
		run := map[string]func(*view){"keep": (*view).keep, "reopen": (*view).reopen}[how]
		if run == nil {
			fmt.Fprintf(os.Stderr, "observer: %q: want keep:CHANNEL or reopen:CHANNEL\n", name)
			return 2
		}
		v := &view{channel: channel, buf: make([]byte, 1<<20), print: func(s observedFrame) {
			s.View, s.Time = name, monotonic()
			out.Lock()
			defer out.Unlock()
			_ = enc.Encode(s) // fails only if the test has ended
		}}
		work.Go(func() { run(v) })
	}
	work.Wait()
	return 0
}

// view is a way to observe a channel.
type view struct {
	channel string
	buf     []byte
	print   func(observedFrame)
}

// keep reads all frames through one handle until it fails.
func (v *view) keep() {
	ch, err := localach.Shm.Open(v.channel)
	for ; err != nil; ch, err = localach.Shm.Open(v.channel) {
		pauseBriefly()
	}
	inode, since := inodeOf(ch), int64(0)
	for r := ch.Reader(); ; {
		if now := monotonic(); ch.LastSeq() == r.Seq() {
			since = now
		}
		n, err := r.NextOldest(v.buf, 5*time.Millisecond)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, localach.ErrBusy):
		case err != nil:
			v.print(observedFrame{Inode: inode, Err: err.Error()})
			return
		default:
			seen := read(v.buf[:n], r.Seq(), inode)
			seen.Since = since
			v.print(seen)
		}
	}
}

// reopen repeatedly opens the channel, reads its newest frame and closes it. It prints
// each change.
func (v *view) reopen() {
	var last observedFrame
	for ; ; pauseBriefly() {
		s := v.newest()
		if s != last && s != (observedFrame{}) {
			v.print(s)
			last = s
		}
	}
}

// newest returns the channel's newest frame, or the zero value if there is none.
func (v *view) newest() observedFrame {
	ch, err := localach.Shm.Open(v.channel)
	if errors.Is(err, os.ErrNotExist) {
		return observedFrame{}
	}
	if err != nil {
		return observedFrame{Err: err.Error()}
	}
	defer ch.Close()
	r, inode := ch.Reader(), inodeOf(ch)
	n, err := r.Last(v.buf)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, localach.ErrBusy):
		return observedFrame{}
	case err != nil:
		return observedFrame{Inode: inode, Err: err.Error()}
	}
	return read(v.buf[:n], r.Seq(), inode)
}

func read(frame []byte, seq, inode uint64) observedFrame {
	s := observedFrame{Inode: inode, Seq: seq, Size: len(frame)}
	if len(frame) < 16 {
		s.Err = io.ErrUnexpectedEOF.Error()
		return s
	}
	s.Stamp = binary.LittleEndian.Uint64(frame)
	s.Put = int64(binary.LittleEndian.Uint64(frame[8:]))
	return s
}

func inodeOf(ch *localach.Channel) uint64 {
	st, err := ch.Stat()
	if err != nil {
		return 0
	}
	return st.Inode
}

// pauseBriefly sleeps between two polls of a view.
func pauseBriefly() { time.Sleep(10 * time.Millisecond) }

// monotonic returns the time of CLOCK_MONOTONIC, which publishers' stamps use, in ns.
func monotonic() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail, since clock and pointer are valid
	return now.Nano()
}
