// Package values prints what is inside frames: as lines for people, as CSV and as JSON.
//
//	p := values.Printer{Layout: l, Fields: []string{"gyro"}}
//	text, err := p.Frame(time.Now(), frame)
//
// Text of a frame is escaped wherever it is shown, and the names of a layout are plain by
// its own checks, so nothing printed here brings an escape sequence to a terminal.
package values
