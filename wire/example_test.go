package wire_test

import (
	"fmt"
	"log"
	"time"

	"achbridge/wire"
)

// A datagram is a header and entries. This one has a frame that was sent 2 ms after its put.
func ExampleParse() {
	sent := 1500 * time.Millisecond // since the sender's node started
	b := wire.AppendHeader(nil, wire.Header{Number: 7, Sent: sent})
	b = wire.AppendFrame(b, sent, wire.Frame{Sub: 3, Seq: 42, Captured: sent - 2*time.Millisecond, Data: []byte("joints")})

	d, err := wire.Parse(b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("packet", d.Number)
	for e, ok := d.Next(); ok; e, ok = d.Next() {
		if e.Kind == wire.KindFrame {
			fmt.Printf("frame %d of subscription %d, %v old: %s\n", e.Frame.Seq, e.Frame.Sub, d.Sent-e.Frame.Captured, e.Frame.Data)
		}
	}
	// Output:
	// packet 7
	// frame 42 of subscription 3, 2ms old: joints
}

// A datagram with one invalid byte is refused as a whole.
func ExampleParse_hostile() {
	b := wire.AppendHeader(nil, wire.Header{Number: 7})
	_, err := wire.Parse(append(b, 0xff))
	fmt.Println(err)
	// Output:
	// datagram: entry 1: type: 0xff is unknown
}

func ExampleAppendMessage() {
	b, err := wire.AppendMessage(nil, wire.Subscribe{ID: 3, Channel: "joints"})
	if err != nil {
		log.Fatal(err)
	}
	size, err := wire.MessageSize([4]byte(b))
	if err != nil {
		log.Fatal(err)
	}
	m, err := wire.ParseMessage(b[4 : 4+size])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("subscribes to %s\n", m.(wire.Subscribe).Channel)
	_, err = wire.AppendMessage(nil, wire.Subscribe{ID: 3, Channel: "../etc"})
	fmt.Println(err)
	// Output:
	// subscribes to joints
	// message subscribe: channel "../etc": begins with a dot
}
