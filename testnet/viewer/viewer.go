// Package viewer is a client of Foxglove's WebSocket protocol for tests. It is written by the texts of RFC 6455 and of Foxglove's
// protocol, and uses no code of the server and no library. So it can find errors of both.
//
//	c := viewer.Connect(t, conn, "/?token="+token, "foxglove.sdk.v1")
//	c.Send(`{"op":"subscribe","subscriptions":[{"id":1,"channelId":%d}]}`, c.Channel("imu").ID)
//	d := c.Data()
package viewer

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
	"sync"
	"time"
)

// Test is a test, which Fatalf ends.
type Test interface {
	Fatalf(format string, args ...any)
}

// Client is a viewer. Its methods end the test after an error.
type Client struct {
	Conn    net.Conn
	NoPongs bool // does not answer pings

	t  Test
	in *bufio.Reader
	mu sync.Mutex // guards writes to Conn
}

// Opcodes of RFC 6455, 5.2.
const (
	opContinuation = 0
	OpText         = 1
	OpBinary       = 2
	opClose        = 8
	opPing         = 9
	opPong         = 10
)

// Upgrade sends a request to connect, and returns the status of the answer and its header.
func Upgrade(conn net.Conn, in *bufio.Reader, path string, header http.Header) (*http.Response, error) {
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

// Connect connects a client, which must be admitted.
func Connect(t Test, conn net.Conn, path, subprotocol string) *Client {
	c := &Client{Conn: conn, t: t, in: bufio.NewReader(conn)}
	answer, err := Upgrade(conn, c.in, path, http.Header{"Sec-Websocket-Protocol": {subprotocol}})
	if err != nil {
		t.Fatalf("%v", err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Sec-WebSocket-Protocol") != subprotocol {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		t.Fatalf("connect: got %s with subprotocol %q, %s, want 101 with %q", answer.Status, answer.Header.Get("Sec-WebSocket-Protocol"), text, subprotocol)
	}
	return c
}

// Write sends a frame. Frames of clients are masked.
func (c *Client) Write(op byte, payload []byte) error {
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
	_, err := c.Conn.Write(frame)
	return err
}

// frame is one frame from the server. The server must not mask.
type frame struct {
	op      byte
	isFinal bool
	payload []byte
}

func (c *Client) readFrame() (f frame, err error) {
	var head [2]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return f, err
	}
	if head[0]&0x70 != 0 || head[1]&0x80 != 0 {
		return f, fmt.Errorf("frame begins with %x: want one that is not masked and without extensions", head)
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
	f = frame{head[0] & 15, head[0]&0x80 != 0, make([]byte, n)}
	_, err = io.ReadFull(c.in, f.payload)
	return f, err
}

// next returns the next text or binary message. It answers pings, and joins the pieces of a message.
func (c *Client) next() (message frame, err error) {
	for {
		f, err := c.readFrame()
		switch {
		case err != nil:
			return f, err
		case f.op == opPing && c.NoPongs:
		case f.op == opPing:
			if err := c.Write(opPong, f.payload); err != nil {
				return f, err
			}
		case f.op == opClose && len(f.payload) >= 2:
			_ = c.Write(opClose, f.payload[:2])
			return f, Closed{int(binary.BigEndian.Uint16(f.payload)), string(f.payload[2:])}
		case f.op == opClose:
			return f, Closed{Code: 1005}
		case (f.op == opContinuation) != (message.op != 0):
			return f, fmt.Errorf("opcode %d after a piece of a message with opcode %d", f.op, message.op)
		case message.op == 0:
			message = f
		default:
			message.payload = append(message.payload, f.payload...)
			message.isFinal = f.isFinal
		}
		if message.op != 0 && message.isFinal {
			return message, nil
		}
	}
}

// Closed is the error that the server has closed the connection.
type Closed struct {
	Code   int
	Reason string
}

func (e Closed) Error() string { return fmt.Sprintf("closed with %d: %s", e.Code, e.Reason) }

// Message has the fields of all text messages that a server may send.
type Message struct {
	Op           string    `json:"op"`
	Name         string    `json:"name"`
	Capabilities []string  `json:"capabilities"`
	SessionID    string    `json:"sessionId"`
	Channels     []Channel `json:"channels"`
	ChannelIDs   []uint64  `json:"channelIds"`
	Level        int       `json:"level"`
	Message      string    `json:"message"`
}

// Channel is an advertised channel.
type Channel struct {
	ID             uint64 `json:"id"`
	Topic          string `json:"topic"`
	Encoding       string `json:"encoding"`
	SchemaName     string `json:"schemaName"`
	Schema         string `json:"schema"`
	SchemaEncoding string `json:"schemaEncoding"`
}

// Text returns the next text message with one of these ops. It skips other texts and messages with data.
func (c *Client) Text(ops ...string) Message {
	for {
		f, err := c.next()
		if err != nil {
			c.t.Fatalf("while waiting for %v: %v", ops, err)
		}
		if f.op != OpText {
			continue
		}
		var m Message
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

// Data is a message with the content of a frame.
type Data struct {
	Subscription uint32
	At           time.Time
	Payload      []byte
}

// Data returns the next message with data, and skips texts.
func (c *Client) Data() Data {
	for {
		f, err := c.next()
		if err != nil {
			c.t.Fatalf("while waiting for data: %v", err)
		}
		if f.op == OpText {
			continue
		}
		d, err := parseData(f.payload)
		if err != nil {
			c.t.Fatalf("%v", err)
		}
		return d
	}
}

func parseData(b []byte) (d Data, err error) {
	if len(b) < 13 || b[0] != 1 {
		return d, fmt.Errorf("%x: want message data", b[:min(len(b), 13)])
	}
	return Data{binary.LittleEndian.Uint32(b[1:]), time.Unix(0, int64(binary.LittleEndian.Uint64(b[5:]))), b[13:]}, nil
}

// Channel waits until the server advertises a topic.
func (c *Client) Channel(topic string) Channel {
	for {
		for _, ch := range c.Text("advertise").Channels {
			if ch.Topic == topic {
				return ch
			}
		}
	}
}

// Send sends a text message.
func (c *Client) Send(format string, args ...any) {
	if err := c.Write(OpText, fmt.Appendf(nil, format, args...)); err != nil {
		c.t.Fatalf("%v", err)
	}
}

// End returns why the server closes the connection. It skips all messages.
func (c *Client) End() Closed {
	for {
		if _, err := c.next(); err != nil {
			e, ok := errors.AsType[Closed](err)
			if !ok {
				c.t.Fatalf("got %v, want that the server closes with a reason", err)
			}
			return e
		}
	}
}
