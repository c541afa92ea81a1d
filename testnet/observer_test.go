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

// asObserver in its environment makes this test binary an observer: a program
// on a host that reads channels written by publishers, or mirrors of them, and
// prints what it sees, one sighting a line. Its arguments are views:
//
//	keep:CHANNEL    reads every frame through one handle, until that gives an error
//	reopen:CHANNEL  opens the channel, looks at the newest frame, closes it, again and again
const asObserver = "ACHBRIDGE_TEST_OBSERVER"

// observedFrame is a frame that a view saw, or an error it got.
type observedFrame struct {
	View  string `json:"view"`
	Time  int64  `json:"t"`     // when it was seen, in ns of CLOCK_MONOTONIC, which all hosts of a lab share
	Since int64  `json:"since"` // when keep last found no newer frame than the one before, as Time: it was put after that
	Inode uint64 `json:"inode"` // of the channel's file
	Seq   uint64 `json:"seq"`   // Ach's number in this file
	Stamp uint64 `json:"stamp"` // the publisher's number
	Put   int64  `json:"put"`   // when the publisher put it, as Time
	Size  int    `json:"size"`  // in bytes
	Err   string `json:"err"`   // instead of a frame
}

// observe runs the views until the process is killed, and returns its exit
// code.
func observe(views []string) int {
	var out sync.Mutex
	enc := json.NewEncoder(os.Stdout)
	var work sync.WaitGroup
	for _, name := range views {
		how, channel, _ := strings.Cut(name, ":")
		look := map[string]func(*view){"keep": (*view).keep, "reopen": (*view).reopen}[how]
		if look == nil {
			fmt.Fprintf(os.Stderr, "observer: %q: want keep:CHANNEL or reopen:CHANNEL\n", name)
			return 2
		}
		v := &view{channel: channel, buf: make([]byte, 1<<20), tell: func(s observedFrame) {
			s.View, s.Time = name, monotonic()
			out.Lock()
			defer out.Unlock()
			_ = enc.Encode(s) // the test is gone, or it works
		}}
		work.Go(func() { look(v) })
	}
	work.Wait()
	return 0
}

// view is one way to look at one channel.
type view struct {
	channel string
	buf     []byte
	tell    func(observedFrame)
}

// keep reads all frames through one handle until that gives an error.
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
			v.tell(observedFrame{Inode: inode, Err: err.Error()})
			return
		default:
			seen := read(v.buf[:n], r.Seq(), inode)
			seen.Since = since
			v.tell(seen)
		}
	}
}

// reopen tells every change of what a program finds that opens the channel,
// looks at its newest frame and closes it.
func (v *view) reopen() {
	var last observedFrame
	for ; ; pauseBriefly() {
		s := v.newest()
		if s != last && s != (observedFrame{}) {
			v.tell(s)
			last = s
		}
	}
}

// newest is zero when there is nothing to see.
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

// pauseBriefly is how long a view that polls leaves the processor to others.
func pauseBriefly() { time.Sleep(10 * time.Millisecond) }

// monotonic is the clock of the publisher's stamps.
func monotonic() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail: the clock exists, the pointer is good
	return now.Nano()
}
