package foxglove

import (
	"encoding/base64"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/protomsg"
	"achbridge/cmd/achbridge/ros1msg"
	"achbridge/cmd/achbridge/ros2msg"
	"achbridge/cmd/achbridge/values"
)

// encoding is the form in which a viewer wants the frames of channels with a layout.
type encoding string

const (
	encodingCDR      encoding = "cdr" // messages of ROS 2
	encodingROS1     encoding = "ros1"
	encodingJSON     encoding = "json"
	encodingProtobuf encoding = "protobuf"
)

var encodings = []encoding{encodingCDR, encodingROS1, encodingJSON, encodingProtobuf}

// converter makes messages from the frames of one channel. It is immutable.
type converter struct {
	description
	// convert appends the message of a frame to dst. The error describes how the frame does not match the layout.
	convert func(dst, frame []byte) ([]byte, error)
}

// newConverter returns the converter for a channel. l is its layout, nil if it has none. Frames without a layout are sent as
// they are. So are frames that are protobuf messages, unless the viewer wants JSON. Frames that a message of ROS cannot
// express, as those of changing length, become protobuf messages.
func newConverter(topic string, l *layout.Layout, e encoding) converter {
	if l == nil {
		return converter{description{Topic: topic, Encoding: "octet"}, func(dst, frame []byte) ([]byte, error) { return append(dst, frame...), nil }}
	}
	switch {
	case e == encodingJSON:
		return converter{description{Topic: topic, Encoding: "json"}, func(dst, frame []byte) ([]byte, error) {
			text, err := values.Object(l, frame)
			return append(dst, text...), err
		}}
	case e == encodingCDR && l.Descriptors == nil:
		if m, err := ros2msg.Of(l); err == nil {
			return converter{description{topic, "cdr", m.Name, m.Text, "ros2msg"}, m.Append}
		}
	case e == encodingROS1 && l.Descriptors == nil:
		if s, err := ros1msg.Of(l); err == nil {
			fit := l.Fit()
			return converter{description{topic, "ros1", s.Name, s.Text, "ros1msg"}, func(dst, frame []byte) ([]byte, error) {
				if err := fit.Check(len(frame), frame); err != nil {
					return dst, err
				}
				return append(dst, frame...), nil
			}}
		}
	}
	m, err := protomsg.Of(l)
	if err != nil {
		return newConverter(topic, nil, e)
	}
	return converter{description{topic, "protobuf", m.Name, base64.StdEncoding.EncodeToString(m.Descriptors), "protobuf"}, m.Append}
}
