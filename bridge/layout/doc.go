// Package layout describes the bytes of a frame, and decodes frames to named values. A frame is a C struct, for which a
// layout has the offset and type of each field, or a protobuf message, for which a layout has the message's descriptors.
//
//	l := layout.Layout{Name: "imu", Size: 24, Fields: []layout.Field{
//		{Name: "gyro", Type: layout.Double, Count: []int{3}, Unit: "rad/s"},
//	}}
//	if len(l.Check()) == 0 {
//		v, err := l.Decode(frame) // err: the frame does not match the layout
//		fmt.Println(v.Member(0).At(2).Text())
//	}
//
// A layout may come from a file or from another host, so it is untrusted. Check finds everything that could make
// decoding read outside the frame. It also finds names that are more than plain text for a terminal, a web page or a
// schema. Call Decode only for a layout without errors in Check. Numbers are little-endian, as on all hosts that run
// Ach.
//
// Pack and Unpack encode a layout for other hosts. Hash identifies a packed layout.
//
// The bytes of different fields do not overlap. Bit fields may share bytes, but not bits. A layout has one member of each
// union. Other Variants can have the other members; without them, Field.Union marks the member.
//
//	layout.go    structs             protobuf.go     messages: compiling, and values
//	fit.go       sizes of structs    wire_fit.go     checks of encoded messages
//	decode.go    values              descriptors.go  the descriptors that one message needs
//	check.go     errors in layouts   encode.go       layouts for other hosts
package layout
