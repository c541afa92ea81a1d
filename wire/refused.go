package wire

import (
	"cmp"
	"fmt"
	"math"
)

// Refused reports that a message of the peer was refused, and why.
type Refused struct {
	ID   uint32 `cbor:"1,keyasint,omitempty"` // ID of the refused message, 0 if its type has no ID
	Re   uint   `cbor:"2,keyasint,omitempty"` // type of the refused message: TypeHello …
	Code Code   `cbor:"3,keyasint,omitempty"`
	Text string `cbor:"4,keyasint,omitempty"` // for people, see Text
}

// Code is the reason of a refusal, for programs. Newer peers may send other codes than these.
type Code int

// The codes of version 1.
const (
	CodeVersion   Code = 1  // the version is not supported
	CodeAbsent    Code = 2  // no such channel or subscription
	CodeForbidden Code = 3  // not exported, or not accepted
	CodeLoop      Code = 4  // the frames come from the requesting node
	CodeLimit     Code = 5  // too many, or too large
	CodeConflict  Code = 6  // the ID or the name is in use
	CodeFailed    Code = 7  // any other reason; Text has it
	CodeEpoch     Code = 8  // the epoch has ended; the catalog has the current one
	CodeAccess    Code = 9  // the origin's daemon may not open the channel's file
	CodeCorrupt   Code = 10 // the channel's file is damaged
	CodeAch1x     Code = 11 // Ach 1.x made the channel: the origin's daemon cannot use it
	CodeAch32Bit  Code = 12 // a 32-bit program made the channel: the origin's daemon cannot use it
	CodeOtherLibc Code = 13 // a program with another C library made the channel: the origin's daemon cannot use it
	CodeCopied    Code = 14 // answers a Hello: another machine has the same node id
	CodeMachine   Code = 15 // the peer runs on another machine than before and gets no commands
	CodeHeld      Code = 16 // the operator lock: another host holds it, or nobody does
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
	CodeHeld:      "held",
}

// String returns the code's name for logs and status.
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
