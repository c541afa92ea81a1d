package hub

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
)

const (
	// maxLine is the maximum length of a line from a server, in bytes. The longest line is INFO.
	maxLine = 32 << 10
	// maxMessage is the maximum size of a message from a server, with its header, in bytes.
	maxMessage = MaxPayload + 64<<10
)

// guard is a connection that fails when a server announces more than it has reason to send. The
// client library itself would allocate any announced size.
type guard struct {
	net.Conn
	first []byte // bytes that were read before; Read returns them first
	check protocol
	// within is called after each read. Its arguments report whether the read had data of a
	// message, and whether the rest of that message is still to come. nil means no call.
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

// protocol parses the server's data: lines, some of which announce a message. It is stricter than
// the client library, so that both see the same lines.
type protocol struct {
	line     []byte
	body     int    // bytes of the message that are still to come
	messages int    // number of announced messages
	tail     string // bytes that must follow the message
}

// take parses the next bytes. An error is final.
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

// announced handles a whole line.
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
