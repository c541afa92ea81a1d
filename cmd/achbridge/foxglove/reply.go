package foxglove

import (
	"encoding/binary"
	"encoding/json"
	"time"
)

// description is an advertised channel, without its ID.
type description struct {
	Topic          string `json:"topic"`
	Encoding       string `json:"encoding"`
	SchemaName     string `json:"schemaName"`
	Schema         string `json:"schema"` // base64 for protobuf, else text
	SchemaEncoding string `json:"schemaEncoding,omitempty"`
}

// advertised is a channel as a viewer knows it. A channel with another description gets another ID.
type advertised struct {
	ID uint32 `json:"id"`
	description
}

// level is the level of a status message.
type level int

const (
	levelWarning level = 1
	levelError   level = 2
)

// serverInfo returns the first message of a connection.
func serverInfo(name, session string) []byte {
	return marshal(struct {
		Op           string   `json:"op"`
		Name         string   `json:"name"`
		Capabilities []string `json:"capabilities"`
		Session      string   `json:"sessionId"`
	}{"serverInfo", name, []string{}, session})
}

// advertise returns the message that these channels exist.
func advertise(list []advertised) []byte {
	return marshal(struct {
		Op       string       `json:"op"`
		Channels []advertised `json:"channels"`
	}{"advertise", list})
}

// unadvertise returns the message that channels exist no longer.
func unadvertise(ids []uint32) []byte {
	return marshal(struct {
		Op  string   `json:"op"`
		IDs []uint32 `json:"channelIds"`
	}{"unadvertise", ids})
}

// statusMessage returns a message for the viewer's user.
func statusMessage(l level, text string) []byte {
	return marshal(struct {
		Op      string `json:"op"`
		Level   level  `json:"level"`
		Message string `json:"message"`
	}{"status", l, text})
}

// appendData appends the message with the content of one frame to dst.
func appendData(dst []byte, subscription uint32, at time.Time, payload []byte) []byte {
	const messageData = 1
	dst = append(dst, messageData)
	dst = binary.LittleEndian.AppendUint32(dst, subscription)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(max(0, at.UnixNano())))
	return append(dst, payload...)
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // v has one of our own types, which always can be encoded
	}
	return text
}
