package achd

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"achbridge/localach"
)

// answer is what a host with achd says to our request.
type answer struct {
	status      int
	message     string
	count, size int
	port        int // from which its datagrams come
	lines       int
}

// maxMessage is how much of a host's words is passed on.
const maxMessage = 200

// add takes one line of the answer, without its end. done means that it was the last. achd's own messages break its
// rules, so that of these any text is taken.
func (a *answer) add(line []byte) (done bool, err error) {
	if a.lines++; a.lines > maxLines {
		return false, fmt.Errorf("its answer has more than %d lines", maxLines)
	}
	key, value, what := splitLine(line)
	if what != isHeader {
		return what == isEnd, nil
	}
	number, _, _ := strings.Cut(value, " ") // a comment was behind it
	ok := true
	switch key {
	case "message":
		a.message = printable(value)
	case "status":
		a.status, err = strconv.Atoi(number)
		ok = err == nil && a.status >= 0
	case "frame-count":
		a.count, ok = positive(number, math.MaxInt32)
	case "frame-size":
		a.size, ok = positive(number, math.MaxInt32)
	case "remote-port":
		a.port, ok = positive(number, math.MaxUint16)
	case "channel-name", "transport", "direction", "get-last", "period-ns", "local-port", "remote-host", "tcp-nodelay", "retry":
	default:
		ok = false
	}
	if !ok {
		return false, fmt.Errorf("its answer has a line that is none of achd: %q", printable(string(line)))
	}
	return false, nil
}

func positive(text string, most int) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0 && n <= most
}

// printable is a host's text, cut and without what a terminal would take for more than text.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, text[:min(len(text), maxMessage)])
}

// Why a host does not let us have a channel.
var (
	ErrNoChannel = errors.New("it has no such channel")
	ErrRefused   = errors.New("it refuses")
)

// complete returns what the answer grants, or says why it grants nothing.
func (a *answer) complete(udp bool) (g localach.Geometry, err error) {
	g = localach.Geometry{FrameCount: a.count, FrameSize: a.size}
	switch {
	case code(a.status) == noEntry:
		return g, fmt.Errorf("%w: %s", ErrNoChannel, a.message)
	case a.status != 0:
		return g, fmt.Errorf("%w: status %d, %s", ErrRefused, a.status, a.message)
	case a.count == 0 || a.size == 0:
		return g, errors.New("its answer does not tell how large the channel is")
	case udp && a.port == 0:
		return g, errors.New("its answer does not tell the port that its datagrams come from")
	}
	return g, nil
}
