package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/view"
	"achbridge/testnet/await"
	"achbridge/testnet/viewer"
)

// connectViewer implements "viewer CONTROL TOKENFILE TOPIC SUBPROTOCOL". It connects to a daemon, and prints the topic's encoding and
// schema, and a frame of `achbridge publish` in CDR.
func connectViewer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: viewer CONTROL TOKENFILE TOPIC SUBPROTOCOL")
	}
	var s api.StatusReply
	_, err := (&app{Host: view.Host{Places: config.Places{Env: ts.Getenv}}}).Client(ts.MkAbs(args[0])).Get(context.Background(), "/v1/status", &s)
	ts.Check(err)
	token, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.Foxglove, "ws://"))
	ts.Check(err)
	defer conn.Close()
	ts.Check(conn.SetDeadline(time.Now().Add(await.Limit)))
	c := viewer.Connect(ts, conn, "/?token="+strings.TrimSpace(string(token)), args[3])
	ch := c.Channel(args[2])
	fmt.Fprintf(ts.Stdout(), "%s %s %s %s\n%s", ch.Topic, ch.Encoding, ch.SchemaName, ch.SchemaEncoding, ch.Schema)
	c.Send(`{"op":"subscribe","subscriptions":[{"id":1,"channelId":%d}]}`, ch.ID)
	before := uint64(0)
	for range 3 { // frames are numbered, after the encapsulation of CDR
		d := c.Data()
		if n := binary.LittleEndian.Uint64(d.Payload[4:]); n <= before {
			ts.Fatalf("got frame %d after frame %d", n, before)
		} else {
			before = n
		}
		fmt.Fprintf(ts.Stdout(), "frame of %d bytes\n", len(d.Payload))
	}
}
