// Package layout describes the bytes of a frame: the offset and C type of each field.
//
//	l := layout.Layout{Name: "imu", Size: 24, Fields: []layout.Field{
//		{Name: "gyro", Type: layout.Double, Count: []int{3}, Unit: "rad/s"},
//	}}
//	if len(l.Check()) == 0 {
//		v, err := l.Decode(frame) // err: the frame has another size
//		fmt.Println(v.Members()[0].At(2).Text())
//	}
//
// A layout may come from a file or from another host, so it is untrusted. Check finds everything that could make
// decoding read outside the frame. It also finds names that are more than plain text for a terminal, a web page or a
// schema. Call Decode only for a layout without errors in Check. Numbers are little-endian, as on all hosts that run
// Ach.
//
// Pack and Unpack encode a layout for other hosts. Hash identifies a packed layout.
//
// The bytes of different fields do not overlap. Bit fields may share bytes, but not bits. Of a union, only the first
// member is in the layout, and that field is marked.
package layout
