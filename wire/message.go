package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// Limits of a control message.
const (
	MaxMessage  = 1 << 20 // largest message body, in bytes
	MaxChannels = 2048    // maximum number of channels, removed names or accounts in one message
)

// Types of control messages, also used in Refused.Re and Unknown.Type.
const (
	TypeHello       uint = 1
	TypeCatalog     uint = 2
	TypeSubscribe   uint = 3
	TypeSubscribed  uint = 4
	TypeUpdate      uint = 5
	TypeUnsubscribe uint = 6
	TypeOffer       uint = 7
	TypeAccepted    uint = 8
	TypeRefused     uint = 9
	TypeCounters    uint = 10
	TypeBye         uint = 11
	TypeRevocations uint = 12
	TypeLoad        uint = 13
	TypeDescribe    uint = 14
	TypeLayout      uint = 15
	TypeKey         uint = 16
	TypeStamp       uint = 17
	TypePulled      uint = 18
	TypeNewest      uint = 19
	TypeQuery       uint = 20
	TypeTake        uint = 21
	TypeRelease     uint = 22
	TypeHolderQuery uint = 23
	TypeHolder      uint = 24
	TypeEdit        uint = 25
	TypeEdited      uint = 26
)

// Message is a control message: Hello, Catalog, Subscribe, Subscribed, Update, Unsubscribe, Offer,
// Accepted, Refused, Ledger, Bye, Revocations, Load, Describe, Layout, Key, Stamp, Pulled, Newest,
// Query, Take, Release, HolderQuery, Holder, Edit or Edited. ParseMessage also returns Unknown. A Message is never a pointer.
type Message interface {
	number() uint // the message's type on the wire
	check() error // checks the limits; the error begins with the field
}

// Unknown is a message whose type is not part of version 1. The receiver skips it.
type Unknown struct {
	Type uint
}

func (m Unknown) number() uint { return m.Type }
func (m Unknown) check() error { return errors.New("cannot be sent") }

// messageTypes has the name and decoder of each message type.
var messageTypes = [...]struct {
	name   string
	decode func(fields []byte) (Message, error)
}{
	TypeHello:       {"hello", decode[Hello]},
	TypeCatalog:     {"catalog", decode[Catalog]},
	TypeSubscribe:   {"subscribe", decode[Subscribe]},
	TypeSubscribed:  {"subscribed", decode[Subscribed]},
	TypeUpdate:      {"update", decode[Update]},
	TypeUnsubscribe: {"unsubscribe", decode[Unsubscribe]},
	TypeOffer:       {"offer", decode[Offer]},
	TypeAccepted:    {"accepted", decode[Accepted]},
	TypeRefused:     {"refused", decode[Refused]},
	TypeCounters:    {"ledger", decode[Counters]},
	TypeBye:         {"bye", decode[Bye]},
	TypeRevocations: {"revocations", decode[Revocations]},
	TypeLoad:        {"load", decode[Load]},
	TypeDescribe:    {"describe", decode[Describe]},
	TypeLayout:      {"layout", decode[Layout]},
	TypeKey:         {"key", decode[Key]},
	TypeStamp:       {"stamp", decode[Stamp]},
	TypePulled:      {"pulled", decode[Pulled]},
	TypeNewest:      {"newest", decode[Newest]},
	TypeQuery:       {"query", decode[Query]},
	TypeTake:        {"take", decode[Take]},
	TypeRelease:     {"release", decode[Release]},
	TypeHolderQuery: {"holderquery", decode[HolderQuery]},
	TypeHolder:      {"holder", decode[Holder]},
	TypeEdit:        {"edit", decode[Edit]},
	TypeEdited:      {"edited", decode[Edited]},
}

// AppendMessage appends the length of m and m to dst. If the peer would refuse m, it returns dst
// unchanged and an error.
func AppendMessage(dst []byte, m Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return dst, fmt.Errorf("message %s: %w", messageName(m.number()), err)
	}
	body, err := encoding.Marshal(struct {
		_      struct{} `cbor:",toarray"`
		Type   uint
		Fields Message
	}{Type: m.number(), Fields: m})
	if err != nil {
		return dst, fmt.Errorf("message %s: %w", messageName(m.number()), err)
	}
	if len(body) > MaxMessage {
		return dst, fmt.Errorf("message %s: %w bytes", messageName(m.number()), errOutside(len(body), 1, MaxMessage))
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	return append(dst, body...), nil
}

// MessageSize decodes the length before a message and returns how many bytes follow. After an error
// nothing more can be read from the stream.
func MessageSize(length [4]byte) (int, error) {
	n := binary.BigEndian.Uint32(length[:])
	if n < 1 || n > MaxMessage {
		return 0, fmt.Errorf("message length: %w bytes", errOutside(n, 1, MaxMessage))
	}
	return int(n), nil
}

// ParseMessage parses the body of a message, the MessageSize bytes after its length. The message
// does not alias body. An error names the message and the field. The stream can still be read after
// an error, from the next message on.
func ParseMessage(body []byte) (Message, error) {
	if len(body) > MaxMessage {
		return nil, fmt.Errorf("message: %w bytes", errOutside(len(body), 1, MaxMessage))
	}
	var envelope struct {
		_      struct{} `cbor:",toarray"`
		Type   uint
		Fields cbor.RawMessage
	}
	if err := decoding.Unmarshal(body, &envelope); err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	t := envelope.Type
	if t >= uint(len(messageTypes)) || messageTypes[t].decode == nil {
		return Unknown{Type: t}, nil
	}
	// Package cbor would accept null as an empty map.
	if envelope.Fields[0]>>5 != cborMap {
		return nil, fmt.Errorf("message %s: fields: not a map", messageName(t))
	}
	m, err := messageTypes[t].decode(envelope.Fields)
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", messageName(t), err)
	}
	return m, nil
}

func decode[M Message](fields []byte) (Message, error) {
	var m M
	if err := decoding.Unmarshal(fields, &m); err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

func messageName(t uint) string {
	if t < uint(len(messageTypes)) && messageTypes[t].decode != nil {
		return messageTypes[t].name
	}
	return fmt.Sprintf("of type %d", t)
}
