package hub

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the type of a byte stream's message.
type kind uint8

const (
	kindOpen   kind = 1 // first message of the end that dials
	kindData   kind = 2
	kindCredit kind = 3 // also the first message of the end that accepts
	kindClose  kind = 4
)

const (
	// maxData is the maximum number of stream bytes in one message.
	maxData = 4096
	// maxReason is the maximum length of a closing reason, in bytes.
	maxReason = 256

	messageHeader = 8 + 1
)

// message is one message of a byte stream.
type message struct {
	Number uint64 // counted from 0 in each direction
	Kind   kind
	Data   []byte // kindData: 1 … maxData bytes
	Credit uint64 // kindCredit: total number of bytes that may be sent
	Reason string // kindClose
}

// append appends the encoded message to dst.
func (m message) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, m.Number)
	dst = append(dst, byte(m.Kind))
	switch m.Kind {
	case kindData:
		dst = append(dst, m.Data...)
	case kindCredit:
		dst = binary.BigEndian.AppendUint64(dst, m.Credit)
	case kindClose:
		dst = append(dst, m.Reason...)
	}
	return dst
}

// parseMessage parses a message. Its data aliases b.
func parseMessage(b []byte) (message, error) {
	if len(b) < messageHeader {
		return message{}, fmt.Errorf("message: got %d bytes, want a header of %d", len(b), messageHeader)
	}
	m := message{Number: binary.BigEndian.Uint64(b), Kind: kind(b[8])}
	body := b[messageHeader:]
	switch m.Kind {
	case kindOpen:
		if len(body) != 0 {
			return m, fmt.Errorf("open: got a body of %d bytes, want none", len(body))
		}
	case kindData:
		if len(body) == 0 || len(body) > maxData {
			return m, fmt.Errorf("data: got %d bytes, want 1 to %d", len(body), maxData)
		}
		m.Data = body
	case kindCredit:
		if len(body) != 8 {
			return m, fmt.Errorf("credit: got a body of %d bytes, want 8", len(body))
		}
		m.Credit = binary.BigEndian.Uint64(body)
	case kindClose:
		if m.Reason = string(body); !printable(m.Reason, maxReason) {
			return m, errors.New("close: want a reason of printable UTF-8, at most 256 bytes")
		}
	default:
		return m, fmt.Errorf("message: unknown kind %d", m.Kind)
	}
	return m, nil
}

// here is the presence message of a host.
type here struct {
	Gone        bool
	Incarnation [8]byte // incarnation of the program, random
}

const (
	hereVersion = 1
	hereGone    = 1 // a flag
	hereSize    = 1 + 1 + 8
)

func (h here) append(dst []byte) []byte {
	var flags byte
	if h.Gone {
		flags = hereGone
	}
	return append(append(dst, hereVersion, flags), h.Incarnation[:]...)
}

// parseHere parses a presence message. It ignores fields that a later version adds. It rejects
// text, which has no valid version, since an answer of the server may be misdirected here.
func parseHere(b []byte) (here, error) {
	if len(b) < hereSize || b[0] < hereVersion || b[0] >= ' ' {
		return here{}, fmt.Errorf("presence: got %d bytes, want %d and version %d", len(b), hereSize, hereVersion)
	}
	return here{Gone: b[1]&hereGone != 0, Incarnation: [8]byte(b[2:hereSize])}, nil
}

func printable(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
