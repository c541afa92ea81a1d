package wire

import (
	"cmp"
	"fmt"
	"math"
)

// Refused refuses a message of the peer.
type Refused struct {
	ID   uint32 `cbor:"1,keyasint,omitempty"` // of the message refused; 0: it has none
	Re   uint   `cbor:"2,keyasint,omitempty"` // its type: TypeHello …
	Code Code   `cbor:"3,keyasint,omitempty"`
	Text string `cbor:"4,keyasint,omitempty"` // for people, see Text
}

// Code is the reason of a refusal, for programs. Other codes than these may
// come from newer peers.
type Code int

// The reasons of version 1.
const (
	CodeVersion   Code = 1  // the version cannot be served
	CodeAbsent    Code = 2  // no such channel or subscription
	CodeForbidden Code = 3  // not exported, or not accepted
	CodeLoop      Code = 4  // the frames come from the asking node
	CodeLimit     Code = 5  // too many, or too large
	CodeConflict  Code = 6  // the ID or the name is in use
	CodeFailed    Code = 7  // everything else: see the text
	CodeEpoch     Code = 8  // that life of the channel is over; the catalog has the present one
	CodeAccess    Code = 9  // the origin's daemon may not open the channel's file
	CodeCorrupt   Code = 10 // the channel's file is damaged
	CodeAch1x     Code = 11 // Ach 1.x made the channel: the origin's daemon cannot use it
	CodeAch32Bit  Code = 12 // a 32-bit program made it, likewise
	CodeOtherLibc Code = 13 // a program with another C library made it, likewise
	CodeCopied    Code = 14 // in answer to Hello: another machine has the same node id
	CodeMachine   Code = 15 // the peer runs on another machine than before: it gets no commands
)

var codes = [...]string{
	CodeVersion:   "version not served",
	CodeAbsent:    "absent",
	CodeForbidden: "forbidden",
	CodeLoop:      "loop",
	CodeLimit:     "limit",
	CodeConflict:  "conflict",
	CodeFailed:    "failed",
	CodeEpoch:     "epoch over",
	CodeAccess:    "access",
	CodeCorrupt:   "corrupt",
	CodeAch1x:     "Ach 1.x",
	CodeAch32Bit:  "32-bit Ach",
	CodeOtherLibc: "other C library",
	CodeCopied:    "copied",
	CodeMachine:   "other machine",
}

// String is for logs and status.
func (c Code) String() string {
	if c > 0 && int(c) < len(codes) {
		return codes[c]
	}
	return fmt.Sprintf("code %d", int(c))
}

func (m Refused) number() uint { return TypeRefused }

func (m Refused) check() error {
	if m.Re == 0 {
		return fmt.Errorf("type refused: %w", errNone)
	}
	return cmp.Or(checkRange("code", int(m.Code), 1, math.MaxUint16), checkText("text", m.Text))
}
