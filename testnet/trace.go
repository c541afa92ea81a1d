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

// Trace is a recording of a link: the times (chances) at which it could send 1500
// bytes. A chance at which no packet waits is lost. Bytes of a chance that a packet
// does not use are used for the next packet, and a packet may span several chances.
// At its end the trace begins again. This is the format of mahimahi (Netravali et
// al., USENIX ATC 2015).
//
// A trace records the throughput of one sender at one time and place, in whole
// milliseconds. It does not model that a network reacts to traffic, as a cell does
// that schedules a sender by its requests and those of others. It has no losses.
//
// A Trace is immutable, so links may share it.
type Trace struct {
	name    string
	at      []time.Duration // ascending, the last one greater than zero
	reverse *Trace          // trace of the reverse direction, or nil
}

const (
	chanceBytes = 1500
	maxChances  = 10e6
)

// ParseTrace parses a trace: one time in ms per line, in ascending order. The last
// time is the length of the trace.
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

// time returns the time of chance n, counted over all repetitions, by the trace's clock.
func (t *Trace) time(n int) time.Duration {
	return time.Duration(n/len(t.at))*t.loop() + t.at[n%len(t.at)]
}

// first returns the first chance at now or later.
func (t *Trace) first(now time.Duration) int {
	loops, rest := now/t.loop(), now%t.loop()
	if rest == 0 && loops > 0 {
		loops, rest = loops-1, t.loop() // the last chance of a repetition is at its end
	}
	i, _ := slices.BinarySearch(t.at, rest)
	return int(loops)*len(t.at) + i
}

// chances is the position of a link in its trace. Times are by the trace's clock.
type chances struct {
	n         int // the current chance
	bytesLeft int // unused bytes of the current chance
}

func (t *Trace) from(now time.Duration) chances { return chances{t.first(now), chanceBytes} }

// send uses the chances for size bytes that wait at now and returns when the last byte is sent.
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

// nextFree returns when a byte that waits at now could be sent.
func (c chances) nextFree(t *Trace, now time.Duration) time.Duration { return c.send(t, now, 1) }
