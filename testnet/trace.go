package testnet

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Trace is a recorded link: the times at which it could carry a packet. Each is
// one chance for 1500 bytes. A chance at which nothing waits is lost; what a
// packet leaves of its chance serves the next packet, and a packet may span
// chances. At its end the trace begins again. This is the format of mahimahi
// (Netravali et al., USENIX ATC 2015).
//
// A trace says what one sender at one time and place got from its network. It
// does not model that the network answers to what is sent: a cell that gives a
// sender turns because it has asked for them, or fewer since another asks too;
// nor losses, which a trace does not record. Times are whole milliseconds.
//
// A Trace does not change: links may share it.
type Trace struct {
	name    string
	at      []time.Duration // ascending, the last one greater than zero
	reverse *Trace          // of the way back, or nil
}

const (
	chanceBytes = 1500
	maxChances  = 10e6
)

// ParseTrace reads a trace: a time in ms a line, none less than the one before.
// The trace is as long as its last time says.
func ParseTrace(name string, text []byte) (*Trace, error) {
	if strings.Contains(name, ",") {
		return nil, fmt.Errorf("%s: the file's name has a comma, which ends it in the text form; rename the file, or make a link to it", name)
	}
	t := &Trace{name: name}
	line, last := 0, time.Duration(0)
	s := bufio.NewScanner(bytes.NewReader(text))
	for s.Scan() {
		line++
		word := strings.TrimSpace(s.Text())
		ms, err := strconv.ParseUint(word, 10, 40)
		at := time.Duration(ms) * time.Millisecond
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s, line %d: %.20q is not a time; right is a whole number of milliseconds on each line", name, line, word)
		case at < last:
			return nil, fmt.Errorf("%s, line %d: %d ms is less than the line before; sort the lines (sort -n)", name, line, ms)
		case line > maxChances:
			return nil, fmt.Errorf("%s: more than %.0f lines; cut it to a shorter time", name, float64(maxChances))
		}
		t.at, last = append(t.at, at), at
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%s, line %d: %w; right is a whole number of milliseconds on each line", name, line+1, err)
	}
	if last == 0 {
		return nil, fmt.Errorf("%s: covers no time; right are lines with times in milliseconds, the last one greater than 0", name)
	}
	return t, nil
}

func (t *Trace) loop() time.Duration { return t.at[len(t.at)-1] }

// time is when chance n is, by the trace's own clock.
func (t *Trace) time(n int) time.Duration {
	return time.Duration(n/len(t.at))*t.loop() + t.at[n%len(t.at)]
}

// first is the first chance at now or later.
func (t *Trace) first(now time.Duration) int {
	loops, rest := now/t.loop(), now%t.loop()
	if rest == 0 && loops > 0 {
		loops, rest = loops-1, t.loop() // the last chance of a loop is at its end
	}
	i, _ := slices.BinarySearch(t.at, rest)
	return int(loops)*len(t.at) + i
}

// chances is where a link is in its trace. Times are by the trace's clock.
type chances struct {
	n         int // the chance in use
	bytesLeft int // bytes of it
}

func (t *Trace) from(now time.Duration) chances { return chances{t.first(now), chanceBytes} }

// send returns when size bytes that wait at now have left.
func (c *chances) send(t *Trace, now time.Duration, size int) time.Duration {
	if t.time(c.n) < now {
		*c = t.from(now)
	}
	for size > c.bytesLeft {
		size -= c.bytesLeft
		c.n, c.bytesLeft = c.n+1, chanceBytes
	}
	c.bytesLeft -= size
	return t.time(c.n)
}

// nextFree returns when the next byte that waits at now leaves.
func (c chances) nextFree(t *Trace, now time.Duration) time.Duration { return c.send(t, now, 1) }
