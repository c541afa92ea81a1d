package foxglove_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// client is a viewer written by the texts of RFC 6455 and of Foxglove's protocol. It uses no code of the server and no library.
type client struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader

	mu      sync.Mutex // guards writes to conn
	isQuiet bool       // answers no ping; guarded by mu
}

// Opcodes of RFC 6455, 5.2.
const (
	opText   = 1
	opBinary = 2
	opClose  = 8
	opPing   = 9
	opPong   = 10
)

// upgrade sends a request to connect, and returns the status of the answer and its header.
func upgrade(conn net.Conn, in *bufio.Reader, path string, header http.Header) (*http.Response, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
		path, "127.0.0.1", base64.StdEncoding.EncodeToString([]byte("sixteen bytes!!!")))
	_ = header.Write(&b)
	b.WriteString("\r\n")
	if _, err := conn.Write(b.Bytes()); err != nil {
		return nil, err
	}
	return http.ReadResponse(in, nil)
}

// connect connects a client, which must be admitted.
func connect(t testing.TB, conn net.Conn, path, subprotocol string) *client {
	t.Helper()
	c := &client{t: t, conn: conn, in: bufio.NewReader(conn)}
	answer, err := upgrade(conn, c.in, path, http.Header{"Sec-Websocket-Protocol": {subprotocol}})
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Sec-WebSocket-Protocol") != subprotocol {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		t.Fatalf("connect: got %s with subprotocol %q, %s, want 101 with %q", answer.Status, answer.Header.Get("Sec-WebSocket-Protocol"), text, subprotocol)
	}
	return c
}

// write sends a frame. Frames of clients are masked.
func (c *client) write(op byte, payload []byte) error {
	frame := []byte{0x80 | op}
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, 0x80|byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(n))
	}
	mask := []byte{7, 11, 13, 17}
	frame = append(frame, mask...)
	for i, b := range payload {
		frame = append(frame, b^mask[i%4])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.conn.Write(frame)
	return err
}

// frame is one frame from the server. The server must not mask.
type frame struct {
	op      byte
	payload []byte
}

func (c *client) readFrame() (f frame, err error) {
	var head [2]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return f, err
	}
	if head[0]&0x80 == 0 || head[0]&0x70 != 0 || head[1]&0x80 != 0 {
		return f, fmt.Errorf("frame begins with %x: want one that is final, not masked and without extensions", head)
	}
	n := uint64(head[1])
	switch n {
	case 126:
		var size [2]byte
		_, err = io.ReadFull(c.in, size[:])
		n = uint64(binary.BigEndian.Uint16(size[:]))
	case 127:
		var size [8]byte
		_, err = io.ReadFull(c.in, size[:])
		n = binary.BigEndian.Uint64(size[:])
	}
	if err != nil {
		return f, err
	}
	f = frame{head[0] & 15, make([]byte, n)}
	_, err = io.ReadFull(c.in, f.payload)
	return f, err
}

// closed is the error that the server has closed the connection.
type closed struct {
	code   int
	reason string
}

func (e closed) Error() string { return fmt.Sprintf("closed with %d: %s", e.code, e.reason) }

// next returns the next text or binary message. It answers pings, unless the client is quiet.
func (c *client) next() (frame, error) {
	for {
		f, err := c.readFrame()
		switch {
		case err != nil:
			return f, err
		case f.op == opPing:
			c.mu.Lock()
			isQuiet := c.isQuiet
			c.mu.Unlock()
			if !isQuiet {
				if err := c.write(opPong, f.payload); err != nil {
					return f, err
				}
			}
		case f.op == opClose && len(f.payload) >= 2:
			_ = c.write(opClose, f.payload[:2])
			return f, closed{int(binary.BigEndian.Uint16(f.payload)), string(f.payload[2:])}
		case f.op == opClose:
			return f, closed{code: 1005}
		default:
			return f, nil
		}
	}
}

// serverMessage has the fields of all text messages that a server may send.
type serverMessage struct {
	Op           string          `json:"op"`
	Name         string          `json:"name"`
	Capabilities []string        `json:"capabilities"`
	SessionID    string          `json:"sessionId"`
	Channels     []serverChannel `json:"channels"`
	ChannelIDs   []uint64        `json:"channelIds"`
	Level        int             `json:"level"`
	Message      string          `json:"message"`
}

type serverChannel struct {
	ID             uint64 `json:"id"`
	Topic          string `json:"topic"`
	Encoding       string `json:"encoding"`
	SchemaName     string `json:"schemaName"`
	Schema         string `json:"schema"`
	SchemaEncoding string `json:"schemaEncoding"`
}

// text returns the next text message with one of these ops. It skips other texts and messages with data.
func (c *client) text(ops ...string) serverMessage {
	c.t.Helper()
	for {
		f, err := c.next()
		if err != nil {
			c.t.Fatalf("while waiting for %v: %v", ops, err)
		}
		if f.op != opText {
			continue
		}
		var m serverMessage
		if err := json.Unmarshal(f.payload, &m); err != nil {
			c.t.Fatalf("%s: %v", f.payload, err)
		}
		for _, op := range ops {
			if m.Op == op {
				return m
			}
		}
	}
}

// data is a message with the content of a frame.
type data struct {
	subscription uint32
	at           time.Time
	payload      []byte
}

// data returns the next message with data, and skips texts.
func (c *client) data() data {
	c.t.Helper()
	for {
		f, err := c.next()
		if err != nil {
			c.t.Fatalf("while waiting for data: %v", err)
		}
		if f.op == opText {
			continue
		}
		d, err := parseData(f.payload)
		if err != nil {
			c.t.Fatal(err)
		}
		return d
	}
}

func parseData(b []byte) (d data, err error) {
	if len(b) < 13 || b[0] != 1 {
		return d, fmt.Errorf("%x: want message data", b[:min(len(b), 13)])
	}
	return data{binary.LittleEndian.Uint32(b[1:]), time.Unix(0, int64(binary.LittleEndian.Uint64(b[5:]))), b[13:]}, nil
}

// channel waits until the server advertises a topic.
func (c *client) channel(topic string) serverChannel {
	c.t.Helper()
	for {
		for _, ch := range c.text("advertise").Channels {
			if ch.Topic == topic {
				return ch
			}
		}
	}
}

// send sends a text message.
func (c *client) send(format string, args ...any) {
	c.t.Helper()
	if err := c.write(opText, fmt.Appendf(nil, format, args...)); err != nil {
		c.t.Fatal(err)
	}
}

// end returns why the server closes the connection. It skips all messages.
func (c *client) end() closed {
	c.t.Helper()
	for {
		if _, err := c.next(); err != nil {
			e, ok := errors.AsType[closed](err)
			if !ok {
				c.t.Fatalf("got %v, want that the server closes with a reason", err)
			}
			return e
		}
	}
}

// has fails the test unless text contains part.
func has(t testing.TB, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: got %q, want %q in it", what, text, part)
	}
}
