package hub

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
)

const (
	// maxLine is the length of a line that a server sends, in bytes. The longest one tells
	// what the server is.
	maxLine = 32 << 10
	// maxMessage is the size of a message that a server sends, with its header.
	maxMessage = MaxPayload + 64<<10
)

// guard is a connection from which nothing larger is read than a server has reason to send:
// the client library would make room for whatever a server announces.
type guard struct {
	net.Conn
	first []byte // read before, given out first
	check protocol
	// within, if not nil, hears after each read whether a message came, or a part of one, and whether more of it is to come.
	within func(came, more bool)
}

func (g *guard) Read(b []byte) (int, error) {
	if len(g.first) > 0 {
		n := copy(b, g.first)
		g.first = g.first[n:]
		return n, g.check.take(b[:n])
	}
	n, err := g.Conn.Read(b)
	before, inside := g.check.messages, g.check.body > 0
	if bad := g.check.take(b[:n]); bad != nil {
		return 0, bad
	}
	if g.within != nil {
		g.within(inside || g.check.messages > before, g.check.body > 0)
	}
	return n, err
}

// protocol follows what a server sends: lines, some of which announce a message. It is stricter
// than the client library, so that both see the same lines.
type protocol struct {
	line     []byte
	body     int    // bytes of the message that are to come
	messages int    // that were announced
	tail     string // what must come after it
}

// take looks at what comes next. An error is final.
func (p *protocol) take(b []byte) error {
	for len(b) > 0 {
		switch {
		case p.body > 0:
			n := min(p.body, len(b))
			p.body -= n
			b = b[n:]
		case p.tail != "":
			if b[0] != p.tail[0] {
				return errors.New("hub: it sent a message that is longer than announced")
			}
			p.tail, b = p.tail[1:], b[1:]
		default:
			n := bytes.IndexByte(b, '\n') + 1
			whole := n > 0
			if !whole {
				n = len(b)
			}
			if len(p.line)+n > maxLine {
				return fmt.Errorf("hub: it sent a line of more than %d bytes", maxLine)
			}
			p.line = append(p.line, b[:n]...)
			b = b[n:]
			if whole {
				if err := p.announced(); err != nil {
					return err
				}
				p.line = p.line[:0]
			}
		}
	}
	return nil
}

// announced looks at a whole line.
func (p *protocol) announced() error {
	line := bytes.TrimSuffix(p.line[:len(p.line)-1], []byte{'\r'})
	words := bytes.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(words) == 0 || !bytes.EqualFold(words[0], []byte("MSG")) && !bytes.EqualFold(words[0], []byte("HMSG")) {
		return nil
	}
	size, err := strconv.ParseUint(string(words[len(words)-1]), 10, 31)
	if err != nil || size > maxMessage || bytes.IndexByte(line, '\r') >= 0 {
		return fmt.Errorf("hub: it announced a message of %.20q bytes, want at most %d", words[len(words)-1], maxMessage)
	}
	p.body, p.tail = int(size), "\r\n"
	p.messages++
	return nil
}
