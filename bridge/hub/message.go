package hub

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// kind says what a message of a byte stream is.
type kind uint8

const (
	kindOpen   kind = 1 // the first message of who dials
	kindData   kind = 2
	kindCredit kind = 3 // also the first message of who accepts
	kindClose  kind = 4
)

const (
	// maxData is how many bytes of a stream one message has.
	maxData = 4096
	// maxReason is the length of the text with which a stream is closed, in bytes.
	maxReason = 256

	messageHeader = 8 + 1
)

// message is one message of a byte stream.
type message struct {
	Number uint64 // counted from 0 in each direction
	Kind   kind
	Data   []byte // kindData: 1 … maxData bytes
	Credit uint64 // kindCredit: how many bytes may be sent in all
	Reason string // kindClose
}

// append writes the message to dst.
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

// parseMessage reads a message. Its data is a part of b.
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

// here is what a host tells all others of itself.
type here struct {
	Gone bool
	Life [8]byte // random, of one run of the program
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
	return append(append(dst, hereVersion, flags), h.Life[:]...)
}

// parseHere reads what a host tells of itself. What a later version adds is skipped. Text is no
// version: an answer of the server may be misled here.
func parseHere(b []byte) (here, error) {
	if len(b) < hereSize || b[0] < hereVersion || b[0] >= ' ' {
		return here{}, fmt.Errorf("presence: got %d bytes, want %d and version %d", len(b), hereSize, hereVersion)
	}
	return here{Gone: b[1]&hereGone != 0, Life: [8]byte(b[2:hereSize])}, nil
}

func printable(s string, most int) bool {
	if len(s) > most || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
