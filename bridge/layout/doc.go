// Package layout says what the bytes of a frame mean: which field is where, of which C type.
//
//	l := layout.Layout{Name: "imu", Size: 24, Fields: []layout.Field{
//		{Name: "gyro", Type: layout.Double, Count: []int{3}, Unit: "rad/s"},
//	}}
//	if len(l.Check()) == 0 {
//		v, err := l.Decode(frame) // err: the frame has another size
//		fmt.Println(v.Members()[0].At(2).Text())
//	}
//
// A layout may come from a file that anybody has written, or from another host. Check finds
// whatever could make decoding read outside the frame, or a name bring more than plain text
// to a terminal, a page or a schema. Decode may only be asked of a layout that Check has
// found good. Numbers are little-endian, as on all hosts that Ach is used on.
//
// Pack and Unpack take a layout to another host, where Hash names it.
//
// A field's bytes belong to it alone. Bit fields may share bytes, but no bits. Of a union
// the first member is there, and it is marked.
package layout
