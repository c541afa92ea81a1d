package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
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
// schema, and frames of `achbridge publish` in CDR, or the first message in JSON.
func connectViewer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: viewer CONTROL TOKENFILE TOPIC SUBPROTOCOL")
	}
	var s api.StatusReply
	_, err := (&app{Host: view.Host{Places: config.Places{Env: ts.Getenv}}}).Client(ts.MkAbs(args[0])).Get(context.Background(), "/v1/status", &s)
	ts.Check(err)
	token, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	request, err := http.NewRequest(http.MethodGet, strings.Replace(s.Foxglove, "ws://", "http://", 1)+"/?token="+strings.TrimSpace(string(token)), nil)
	ts.Check(err)
	request.Host = "evil.example.com" // a page can have its own name resolve to this host
	answer, err := http.DefaultClient.Do(request)
	ts.Check(err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusMisdirectedRequest {
		ts.Fatalf("with a foreign Host: got %s, want 421", answer.Status)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.Foxglove, "ws://"))
	ts.Check(err)
	defer conn.Close()
	ts.Check(conn.SetDeadline(time.Now().Add(await.Limit)))
	c := viewer.Connect(ts, conn, "/?token="+strings.TrimSpace(string(token)), args[3])
	ch := c.Channel(args[2])
	fmt.Fprintf(ts.Stdout(), "%s %s %s %s\n%s", ch.Topic, ch.Encoding, ch.SchemaName, ch.SchemaEncoding, ch.Schema)
	c.Send(`{"op":"subscribe","subscriptions":[{"id":1,"channelId":%d}]}`, ch.ID)
	before := uint64(0)
	for range 3 {
		d := c.Data()
		if ch.Encoding == "json" {
			fmt.Fprintf(ts.Stdout(), "%s\n", d.Payload)
			return
		}
		n := binary.LittleEndian.Uint64(d.Payload[4:]) // frames are numbered, after the encapsulation of CDR
		if n <= before {
			ts.Fatalf("got frame %d after frame %d", n, before)
		}
		before = n
		if age := time.Since(d.At); age < 0 || age > time.Minute {
			ts.Fatalf("got a frame that is %v old", age)
		}
		fmt.Fprintf(ts.Stdout(), "frame of %d bytes, captured less than a minute ago\n", len(d.Payload))
	}
}
