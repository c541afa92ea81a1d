// Package values prints the values in frames: as lines for people, as CSV and as JSON.
//
//	p := values.Printer{Layout: l, Fields: []string{"gyro"}}
//	text, err := p.Frame(time.Now(), frame)
//
// Text of a frame is escaped in all output, and the names of a layout have passed layout's checks. So the output cannot
// send an escape sequence to a terminal.
package values
