// Package ros2msg writes frames as messages of ROS 2: in CDR, with definitions that Foxglove and other viewers read.
//
//	m, err := ros2msg.Of(l)        // err: a message of ROS 2 cannot express the layout
//	fmt.Println(m.Name)            // achbridge/msg/imu
//	b, err = m.Append(nil, frame)  // err: the frame does not match the layout
//
// The definitions are those of package ros1msg, where padding has fields. So the message of a C struct that is not packed has
// the bytes of the struct. CDR aligns each number to its size, and a packed struct is written with this alignment.
package ros2msg

import (
	"strings"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/ros1msg"
)

// Message converts the frames of one layout to messages of one type. It is immutable.
type Message struct {
	Name string // with its package
	Text string // message definition of ROS 2

	fit       layout.Fit
	parts     []ros1msg.Part
	isAligned bool // the bytes of a frame are those of its message
}

// encapsulation precedes each message: CDR in little-endian (RTPS 2.2, 10.2).
var encapsulation = []byte{0, 1, 0, 0}

// mostAlignment is the largest alignment of a number in CDR, bytes.
const mostAlignment = 8

// Of returns the Message for a layout, which must have passed Check.
func Of(l *layout.Layout) (*Message, error) {
	s, err := ros1msg.Of(l)
	if err != nil {
		return nil, err
	}
	pkg, name, _ := strings.Cut(s.Name, "/")
	_, isAligned := alignment(s.Parts)
	return &Message{Name: pkg + "/msg/" + name, Text: s.Text, fit: l.Fit(), parts: s.Parts, isAligned: isAligned}, nil
}

// alignment returns the alignment of a struct, and whether all numbers in it are aligned if the struct is.
func alignment(parts []ros1msg.Part) (most int, isAligned bool) {
	most, isAligned = 1, true
	for _, p := range parts {
		each := p.Size
		if p.Parts != nil {
			inner := false
			each, inner = alignment(p.Parts)
			isAligned = isAligned && inner
		}
		isAligned = isAligned && p.Offset%each == 0 && (p.Count == 1 || p.Size%each == 0)
		most = max(most, each)
	}
	return min(most, mostAlignment), isAligned
}

// Append appends the message with the values of a frame to dst. The error describes how the frame does not match the layout;
// dst is then unchanged.
func (m *Message) Append(dst, frame []byte) ([]byte, error) {
	if err := m.fit.Check(len(frame), frame); err != nil {
		return dst, err
	}
	dst = append(dst, encapsulation...)
	if m.isAligned {
		return append(dst, frame...), nil
	}
	return appendParts(dst, len(dst), m.parts, frame), nil
}

// appendParts appends the parts of a struct, whose bytes are at. The message begins at dst[start:].
func appendParts(dst []byte, start int, parts []ros1msg.Part, at []byte) []byte {
	for _, p := range parts {
		if p.Parts == nil {
			for n := len(dst) - start; n%p.Size != 0; n++ {
				dst = append(dst, 0)
			}
			dst = append(dst, at[p.Offset:p.Offset+p.Count*p.Size]...)
			continue
		}
		for i := range p.Count {
			dst = appendParts(dst, start, p.Parts, at[p.Offset+i*p.Size:])
		}
	}
	return dst
}
