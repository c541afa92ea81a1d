package achd

import (
	"bytes"
	"strings"
)

// maxLine is the longest line of the headers in bytes, with its line end; maxLines is the maximum number of lines. achd
// itself sends six.
const (
	maxLine  = 1024
	maxLines = 64
)

// request is a client's request.
type request struct {
	channel      string
	udp          bool
	put          bool // the client sends frames (a push)
	last         bool // send only the newest frame
	periodNs     int64
	remotePort   int64 // UDP port where the client receives datagrams
	hasDirection bool  // the request has a direction
	lines        int
}

// add parses one line of the headers, without its line end. done reports that it was the last line. The error is a
// *refusal.
func (q *request) add(line []byte) (done bool, err error) {
	if q.lines++; q.lines > maxLines {
		return false, &refusal{badHeader, "too many headers"}
	}
	key, value, what := splitLine(line)
	switch {
	case what != isHeader:
		return what == isEnd, nil
	case value == "" || strings.ContainsAny(value, ":="):
		return false, &refusal{badHeader, "malformed header"}
	}
	return false, q.set(key, value)
}

// lineKind is the kind of a header line.
type lineKind int

const (
	isNothing lineKind = iota // empty, or a comment
	isHeader
	isEnd // end of the headers
)

// splitLine parses a line of the headers. key is in lower case; without a key there is no value either. It treats odd
// lines as achd does: blanks before the separator belong to the key, those after the value to the value. Any single
// character ends the headers.
func splitLine(line []byte) (key, value string, what lineKind) {
	line = bytes.ReplaceAll(line, []byte("\r"), nil)
	switch {
	case len(line) == 0:
		return "", "", isNothing
	case len(line) == 1 || len(bytes.Trim(line, blanks)) == 0:
		return "", "", isEnd
	}
	text, _, _ := bytes.Cut(line, []byte("#"))
	text = bytes.TrimLeft(text, blanks)
	if len(text) == 0 {
		return "", "", isNothing
	}
	at := bytes.IndexAny(text, ":=")
	if at <= 0 {
		return "", "", isHeader
	}
	return strings.ToLower(string(text[:at])), string(bytes.TrimLeft(text[at+1:], blanks)), isHeader
}

const blanks = " \t\v\f"

// set sets one key. Keys that achd reads from a client but does not use have no effect.
func (q *request) set(key, value string) error {
	bad := &refusal{badHeader, "Invalid header"}
	ok := true
	switch key {
	case "channel-name":
		q.channel = value
	case "transport":
		q.udp = value == "udp"
		ok = q.udp || value == "tcp"
	case "direction": // the value is the server's direction
		q.hasDirection, q.put = true, value == "pull"
		ok = q.put || value == "push"
	case "get-last":
		q.last, ok = parseBool(value)
	case "retry", "tcp-nodelay":
		_, ok = parseBool(value)
	case "period-ns":
		q.periodNs = max(parseInt(value), 0)
	case "remote-port":
		q.remotePort = parseInt(value)
	case "frame-size", "frame-count", "local-port", "remote-host", "status", "message":
	default:
		ok = false
	}
	if !ok {
		return bad
	}
	return nil
}

// complete returns an error if a required key is missing after all lines.
func (q *request) complete() error {
	switch {
	case q.channel == "":
		return &refusal{badHeader, "no channel header"}
	case !q.hasDirection:
		return &refusal{badHeader, "no direction header"}
	case q.udp && (q.remotePort < 1 || q.remotePort > 65535):
		return &refusal{badHeader, "no remote-port header"}
	}
	return nil
}

func parseBool(text string) (value, ok bool) {
	switch strings.ToLower(text) {
	case "yes", "true", "1", "t", "y", "+", "aye":
		return true, true
	case "no", "false", "0", "f", "n", "-", "nay":
		return false, true
	}
	return false, false
}

// parseInt parses the digits at the start of text, as C's strtol does; any other text gives 0. It returns the largest
// number for a number that is too large.
func parseInt(text string) (n int64) {
	sign := int64(1)
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		sign, text = -1, rest
	}
	for i := 0; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		if n > (1<<63-1-9)/10 {
			return sign * (1<<63 - 1)
		}
		n = 10*n + int64(text[i]-'0')
	}
	return sign * n
}
