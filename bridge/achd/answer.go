package achd

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"achbridge/localach"
)

// answer is the reply of a host with achd to a request of ours.
type answer struct {
	status      int
	message     string
	count, size int
	port        int // port from which the host sends datagrams
	lines       int
}

// maxMessage is the longest message of a host that is shown, in bytes.
const maxMessage = 200

// add parses one line of the answer, without its line end. done reports that it was the last line. achd's own messages
// violate its syntax, so add accepts any text for them.
func (a *answer) add(line []byte) (done bool, err error) {
	if a.lines++; a.lines > maxLines {
		return false, fmt.Errorf("its answer has more than %d lines", maxLines)
	}
	key, value, what := splitLine(line)
	if what != isHeader {
		return what == isEnd, nil
	}
	number, _, _ := strings.Cut(value, " ") // cuts off a comment after the number
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
		return false, fmt.Errorf("its answer has a line that achd does not send: %q", printable(string(line)))
	}
	return false, nil
}

func positive(text string, most int) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0 && n <= most
}

// printable returns a host's text, truncated and without characters that a terminal would interpret.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, text[:min(len(text), maxMessage)])
}

// Reasons why a host denies us a channel.
var (
	ErrNoChannel = errors.New("it has no such channel")
	ErrRefused   = errors.New("it refused the request")
)

// complete returns the geometry that the answer grants, or an error if the host refused the request.
func (a *answer) complete(udp bool) (g localach.Geometry, err error) {
	g = localach.Geometry{FrameCount: a.count, FrameSize: a.size}
	switch {
	case code(a.status) == noEntry:
		return g, fmt.Errorf("%w: %s", ErrNoChannel, a.message)
	case a.status != 0:
		return g, fmt.Errorf("%w: status %d, %s", ErrRefused, a.status, a.message)
	case a.count == 0 || a.size == 0:
		return g, errors.New("its answer lacks the size of the channel")
	case udp && a.port == 0:
		return g, errors.New("its answer lacks the port of its datagrams")
	}
	return g, nil
}
