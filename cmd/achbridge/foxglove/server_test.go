package foxglove_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"achbridge/bridge/layout"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/foxglove"
	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/viewer"
)

const testToken = "TESTTOKENTESTTOKENTESTTOKEN"

// fakeNode is a node with fixed mirrors and events.
type fakeNode struct {
	mu       sync.Mutex
	channels []foxglove.Channel
	ages     map[string]time.Duration
	events   []status.Event
}

func (n *fakeNode) Channels() []foxglove.Channel {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.channels)
}

func (n *fakeNode) set(list ...foxglove.Channel) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.channels = list
}

func (n *fakeNode) Newest(name string) func() (uint64, time.Duration, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	age, ok := n.ages[name]
	if !ok {
		return nil
	}
	return func() (uint64, time.Duration, bool) { return 1, age, true }
}

func (n *fakeNode) Events(ctx context.Context, after uint64) (status.EventList, error) {
	n.mu.Lock()
	list := n.events[min(int(after), len(n.events)):]
	n.mu.Unlock()
	if len(list) > 0 {
		return status.EventList{Events: list}, nil
	}
	<-ctx.Done()
	return status.EventList{}, nil
}

// world is a server on a loopback address, with channels in a directory of its own.
type world struct {
	t    testing.TB
	dir  localach.Dir
	node *fakeNode
	addr string
	log  *bytes.Buffer // complete once the server has ended
	*foxglove.Server
	stop func()
}

func newWorld(t testing.TB, node *fakeNode) *world {
	t.Helper()
	w := &world{t: t, dir: localach.Dir(t.TempDir()), node: node, log: &bytes.Buffer{}}
	s, err := foxglove.New(foxglove.Config{
		Name: "krang", Dir: w.dir, Token: testToken, Origins: func() []string { return []string{"https://viewer.example.com"} },
		Node: node, Log: slog.New(slog.NewTextHandler(w.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Server = s
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	web := &http.Server{Handler: s}
	work.Go(func() { _ = s.Run(ctx) })
	work.Go(func() { _ = web.Serve(ln) })
	w.stop = sync.OnceFunc(func() {
		cancel()
		web.Close()
		await.Return(t, "the server ends", work.Wait)
	})
	t.Cleanup(w.stop)
	return w
}

func (w *world) dial() net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(await.Limit)); err != nil {
		w.t.Fatal(err)
	}
	return conn
}

func (w *world) connect(query, subprotocol string) *viewer.Client {
	w.t.Helper()
	return viewer.Connect(w.t, w.dial(), "/?token="+testToken+query, subprotocol)
}

// channel creates a channel and returns a function that puts a frame.
func (w *world) channel(name string) (put func(frame []byte)) {
	w.t.Helper()
	ch, err := w.dir.Create(name, localach.CreateConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	writer := ch.Writer()
	w.t.Cleanup(func() { writer.Close(); ch.Close() })
	return func(frame []byte) {
		w.t.Helper()
		if _, err := writer.Put(frame); err != nil {
			w.t.Fatal(err)
		}
	}
}

// imu is a packed struct: its numbers are not aligned.
func imu(t testing.TB) []byte {
	return encoded(t, layout.Layout{Name: "imu", Size: 17, Fields: []layout.Field{
		{Name: "kind", Type: layout.Uint8}, {Name: "stamp", Offset: 1, Type: layout.Uint64}, {Name: "acc", Offset: 9, Type: layout.Float, Count: []int{2}, Unit: "m/s2"},
	}})
}

func encoded(t testing.TB, l layout.Layout) []byte {
	t.Helper()
	if p := l.Check(); len(p) > 0 {
		t.Fatal(p)
	}
	b, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func imuFrame() []byte {
	b := binary.LittleEndian.AppendUint64([]byte{3}, 1_000_000_007)
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(1.5))
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(-2))
}

var subprotocols = []string{"foxglove.websocket.v1", "foxglove.sdk.v1"}

func TestViewerReadsChannel(t *testing.T) {
	t.Parallel()
	for _, subprotocol := range subprotocols {
		t.Run(subprotocol, func(t *testing.T) {
			w := newWorld(t, &fakeNode{channels: []foxglove.Channel{{Name: "imu", Layout: imu(t)}, {Name: "raw"}}})
			put, putRaw := w.channel("imu"), w.channel("raw")
			c := w.connect("", subprotocol)
			info := c.Text("serverInfo")
			if info.Name != "achbridge on krang" || info.SessionID == "" || len(info.Capabilities) != 0 {
				t.Errorf("serverInfo: got %+v", info)
			}
			list := c.Text("advertise").Channels
			var topics []string
			for _, ch := range list {
				topics = append(topics, ch.Topic+" "+ch.Encoding+" "+ch.SchemaName+" "+ch.SchemaEncoding)
			}
			want := []string{"/achbridge/age json achbridge.Ages jsonschema", "/achbridge/log json foxglove.Log jsonschema", "imu cdr achbridge/msg/imu ros2msg", "raw octet  "}
			if !slices.Equal(topics, want) {
				t.Fatalf("advertise: got %q, want %q", topics, want)
			}
			has(t, "schema", list[2].Schema, "float32[2] acc")
			c.Send(`{"op":"subscribe","subscriptions":[{"id":7,"channelId":%d},{"id":8,"channelId":%d}]}`, list[2].ID, list[3].ID)
			before := time.Now()
			put(imuFrame())
			d := c.Data()
			b := imuFrame()
			aligned := slices.Concat([]byte{0, 1, 0, 0}, b[:1], make([]byte, 7), b[1:])
			if d.Subscription != 7 || !bytes.Equal(d.Payload, aligned) {
				t.Errorf("got subscription %d, %x, want 7, %x", d.Subscription, d.Payload, aligned)
			}
			if late := time.Since(d.At); d.At.Before(before.Add(-time.Second)) || late < 0 {
				t.Errorf("got time %v, want between the put and now", d.At)
			}
			putRaw([]byte("hello"))
			if d := c.Data(); d.Subscription != 8 || string(d.Payload) != "hello" {
				t.Errorf("got subscription %d, %q, want 8, hello", d.Subscription, d.Payload)
			}
			c.Send(`{"op":"unsubscribe","subscriptionIds":[7]}`)
			c.Send(`{"op":"answer"}`)
			c.Text("status") // the server has handled what was sent before
			put(imuFrame())
			putRaw([]byte("again"))
			if d := c.Data(); d.Subscription != 8 || string(d.Payload) != "again" {
				t.Errorf("after unsubscribe: got subscription %d, %q, want 8, again", d.Subscription, d.Payload)
			}
		})
	}
}

func TestEncodingsOfViewers(t *testing.T) {
	t.Parallel()
	tail := layout.Layout{Name: "scan", Size: 4, Tail: "r", Counter: "n", Fields: []layout.Field{{Name: "n", Type: layout.Uint32}, {Name: "r", Offset: 4, Type: layout.Uint16}}}
	w := newWorld(t, &fakeNode{channels: []foxglove.Channel{{Name: "imu", Layout: imu(t)}, {Name: "scan", Layout: encoded(t, tail)}}})
	w.channel("imu")(imuFrame())
	w.channel("scan")([]byte{2, 0, 0, 0, 5, 0, 6, 0})
	for _, c := range []struct {
		query, topic, encoding, schema string
		want                           func(viewer.Channel, []byte) error
	}{
		{"&encoding=ros1", "imu", "ros1", "ros1msg", func(_ viewer.Channel, b []byte) error { return equal(b, imuFrame()) }},
		{"&encoding=json", "imu", "json", "", func(_ viewer.Channel, b []byte) error {
			return equal(b, []byte(`{"kind":3,"stamp":1000000007,"acc":[1.5,-2]}`))
		}},
		{"&encoding=json", "scan", "json", "", func(_ viewer.Channel, b []byte) error { return equal(b, []byte(`{"n":2,"r":[5,6]}`)) }},
		{"&encoding=protobuf", "imu", "protobuf", "protobuf", protobufFields("kind:3", "stamp:1000000007", "acc:1.5")},
		{"", "scan", "protobuf", "protobuf", protobufFields("r:5", "r:6")}, // a message of ROS cannot express it
	} {
		v := w.connect(c.query, subprotocols[0])
		ch := v.Channel(c.topic)
		if ch.Encoding != c.encoding || ch.SchemaEncoding != c.schema {
			t.Errorf("%s %s: got encoding %q with schema %q, want %q, %q", c.query, c.topic, ch.Encoding, ch.SchemaEncoding, c.encoding, c.schema)
		}
		v.Send(`{"op":"subscribe","subscriptions":[{"id":1,"channelId":%d}]}`, ch.ID)
		if err := c.want(ch, v.Data().Payload); err != nil {
			t.Errorf("%s %s: %v", c.query, c.topic, err)
		}
	}
}

func equal(got, want []byte) error {
	if !bytes.Equal(got, want) {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}

// protobufFields returns a function that decodes a message by the advertised schema and looks for texts in it.
func protobufFields(want ...string) func(viewer.Channel, []byte) error {
	return func(ch viewer.Channel, b []byte) error {
		raw, err := base64.StdEncoding.DecodeString(ch.Schema)
		if err != nil {
			return err
		}
		set := &descriptorpb.FileDescriptorSet{}
		if err := proto.Unmarshal(raw, set); err != nil {
			return err
		}
		file, err := protodesc.NewFile(set.File[0], nil)
		if err != nil {
			return err
		}
		_, name, _ := strings.Cut(ch.SchemaName, ".")
		m := dynamicpb.NewMessage(file.Messages().ByName(protoreflect.Name(name)))
		if err := proto.Unmarshal(b, m); err != nil {
			return err
		}
		text := strings.ReplaceAll(fmt.Sprint(m), " ", "")
		for _, part := range want {
			if !strings.Contains(text, part) {
				return fmt.Errorf("got %s, want %s in it", text, part)
			}
		}
		return nil
	}
}

func TestTimeOfMirrorsFrameIsItsCapture(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &fakeNode{channels: []foxglove.Channel{{Name: "krang.imu", Origin: "krang/imu"}}, ages: map[string]time.Duration{"krang.imu": time.Hour}})
	ch, err := w.dir.Create("krang.imu", localach.CreateConfig{Tag: localach.Tag{Node: [16]byte{1}, Channel: 1, Epoch: 1}, First: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	c := w.connect("", subprotocols[0])
	c.Send(`{"op":"subscribe","subscriptions":[{"id":1,"channelId":%d}]}`, c.Channel("krang.imu").ID)
	if age := time.Since(c.Data().At); age < time.Hour || age > time.Hour+await.Limit {
		t.Errorf("got a frame that is %v old, want the age of the mirror, %v", age, time.Hour)
	}
}

func TestAgesAndEventsAreTopics(t *testing.T) {
	t.Parallel()
	age := 12.5
	at := time.Unix(1700000000, 5)
	w := newWorld(t, &fakeNode{
		channels: []foxglove.Channel{{Name: "krang.imu", Origin: "krang/imu", AgeMs: &age}, {Name: "local"}},
		events:   []status.Event{{Seq: 1, Time: at, Kind: status.EventLinkUp, Host: "krang", Text: "one"}, {Seq: 2, Time: at, Kind: status.EventLinkDown, Host: "krang", Text: "two"}},
	})
	c := w.connect("", subprotocols[1])
	list := c.Text("advertise").Channels
	c.Send(`{"op":"subscribe","subscriptions":[{"id":1,"channelId":%d}]}`, list[0].ID)
	if got := string(c.Data().Payload); got != `{"mirrors":[{"name":"krang.imu","origin":"krang/imu","age_ms":12.5}]}` {
		t.Errorf("ages: got %s", got)
	}
	c.Send(`{"op":"unsubscribe","subscriptionIds":[1]}`)
	c.Send(`{"op":"subscribe","subscriptions":[{"id":2,"channelId":%d}]}`, list[1].ID)
	var texts []string
	for len(texts) < 2 {
		d := c.Data()
		if d.Subscription != 2 {
			continue
		}
		var m struct {
			Timestamp struct{ Sec, Nsec int64 }
			Level     int
			Message   string
			Name      string
		}
		if err := json.Unmarshal(d.Payload, &m); err != nil {
			t.Fatal(err)
		}
		if m.Timestamp.Sec != at.Unix() || m.Timestamp.Nsec != 5 || !d.At.Equal(at) {
			t.Errorf("got %+v at %v, want the time of the event", m, d.At)
		}
		texts = append(texts, fmt.Sprintf("%d %s: %s", m.Level, m.Name, m.Message))
	}
	if want := []string{"2 krang: link_up one", "3 krang: link_down two"}; !slices.Equal(texts, want) {
		t.Errorf("events: got %q, want %q", texts, want)
	}
}

func TestChannelsAppearAndVanish(t *testing.T) {
	t.Parallel()
	node := &fakeNode{}
	w := newWorld(t, node)
	c := w.connect("", subprotocols[0])
	c.Text("advertise")
	put := w.channel("imu")
	node.set(foxglove.Channel{Name: "imu"})
	raw := c.Channel("imu")
	node.set(foxglove.Channel{Name: "imu", Layout: imu(t)})
	gone, news := c.Text("unadvertise"), c.Channel("imu")
	if !slices.Equal(gone.ChannelIDs, []uint64{raw.ID}) || news.ID == raw.ID || news.Encoding != "cdr" {
		t.Errorf("new layout: got %v gone and channel %+v, want %d gone and another channel with encoding cdr", gone.ChannelIDs, news, raw.ID)
	}
	c.Send(`{"op":"subscribe","subscriptions":[{"id":1,"channelId":%d}]}`, news.ID)
	put([]byte("not an imu"))
	has(t, "status", c.Text("status").Message, "imu: 10 bytes do not fit imu, which has 17")
	if err := w.dir.Unlink("imu"); err != nil {
		t.Fatal(err)
	}
	w.channel("imu")(imuFrame()) // the reader opens the new file
	if d := c.Data(); len(d.Payload) != 28 {
		t.Errorf("got %d bytes, want the message of the new channel's frame", len(d.Payload))
	}
	node.set()
	if gone := c.Text("unadvertise"); !slices.Equal(gone.ChannelIDs, []uint64{news.ID}) {
		t.Errorf("got %v gone, want %d", gone.ChannelIDs, news.ID)
	}
}

func TestUnknownClientsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &fakeNode{})
	both := strings.Join(subprotocols, ", ")
	good := "/?token=" + testToken
	for _, c := range []struct {
		name, path string
		header     http.Header
		status     int
		text       string
	}{
		{"no token", "/", http.Header{"Sec-Websocket-Protocol": {both}}, 401, "no token or a wrong one"},
		{"wrong token", "/?token=" + testToken + "X", http.Header{"Sec-Websocket-Protocol": {both}}, 401, "no token or a wrong one"},
		{"two tokens", good + "&token=x", http.Header{"Sec-Websocket-Protocol": {both}}, 401, "no token or a wrong one"},
		{"no subprotocol", good, http.Header{}, 400, "want foxglove.sdk.v1 or foxglove.websocket.v1"},
		{"later version", good, http.Header{"Sec-Websocket-Protocol": {"foxglove.websocket.v2, foxglove.sdk.v9"}}, 400, "want foxglove.sdk.v1 or foxglove.websocket.v1"},
		{"foreign page", good, http.Header{"Sec-Websocket-Protocol": {both}, "Origin": {"https://evil.example.com"}}, 403, `pages of "https://evil.example.com" may not connect`},
		{"part of an origin", good, http.Header{"Sec-Websocket-Protocol": {both}, "Origin": {"https://app.foxglove.dev.example.com"}}, 403, "may not connect"},
		{"null origin", good, http.Header{"Sec-Websocket-Protocol": {both}, "Origin": {"null"}}, 403, "may not connect"},
		{"wrong encoding", good + "&encoding=xml", http.Header{"Sec-Websocket-Protocol": {both}}, 400, "want cdr, ros1, json or protobuf"},
		{"wrong rate", good + "&rate=0", http.Header{"Sec-Websocket-Protocol": {both}}, 400, "want 1 to 1000 messages a second"},
		{"unknown option", good + "&rates=5", http.Header{"Sec-Websocket-Protocol": {both}}, 400, "want token, encoding or rate"},
		{"foxglove's page", good, http.Header{"Sec-Websocket-Protocol": {both}, "Origin": {"https://app.foxglove.dev"}}, 101, ""},
		{"configured page", good, http.Header{"Sec-Websocket-Protocol": {both}, "Origin": {"https://viewer.example.com"}}, 101, ""},
	} {
		conn := w.dial()
		answer, err := viewer.Upgrade(conn, bufio.NewReader(conn), c.path, c.header)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		if answer.StatusCode != 101 {
			b, _ := io.ReadAll(answer.Body)
			text = string(b)
		}
		if answer.StatusCode != c.status || !strings.Contains(text, c.text) || strings.Contains(text, testToken) {
			t.Errorf("%s: got %d, %q, want %d, %q", c.name, answer.StatusCode, text, c.status, c.text)
		}
		conn.Close()
	}
	w.stop()
	if strings.Contains(w.log.String(), testToken) {
		t.Errorf("the log has the token: %s", w.log)
	}
}

func TestBadMessagesEndTheConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &fakeNode{})
	for _, c := range []struct {
		name    string
		op      byte
		payload []byte
		code    int
		reason  string
	}{
		{"bad UTF-8", viewer.OpText, []byte("{\"op\":\"\xff\"}"), 1007, "not valid UTF-8"},
		{"no JSON", viewer.OpText, []byte("hello"), 1008, "not a JSON object of the protocol"},
		{"no op", viewer.OpText, []byte("{}"), 1008, "has no op"},
		{"bad id", viewer.OpText, []byte(`{"op":"subscribe","subscriptions":[{"id":-1,"channelId":1}]}`), 1008, "whole numbers from 0 to 4294967295"},
		{"empty binary", viewer.OpBinary, nil, 1008, "a binary message is empty"},
		{"huge", viewer.OpText, bytes.Repeat([]byte(" "), 300<<10), 1009, ""},
	} {
		v := w.connect("", subprotocols[0])
		if err := v.Write(c.op, c.payload); err != nil {
			t.Fatal(err)
		}
		if e := v.End(); e.Code != c.code || !strings.Contains(e.Reason, c.reason) {
			t.Errorf("%s: got %v, want code %d, %q", c.name, e, c.code, c.reason)
		}
	}
}

func TestRequestsOfViewersAreRefusedWithReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &fakeNode{channels: []foxglove.Channel{{Name: "imu"}}})
	c := w.connect("", subprotocols[0])
	id := c.Channel("imu").ID
	for _, one := range []struct{ message, want string }{
		{`{"op":"advertise","channels":[]}`, `"advertise" is not supported`},
		{`{"op":"setParameters","parameters":[]}`, `"setParameters" is not supported`},
		{`{"op":"subscribe","subscriptions":[{"id":1,"channelId":99}]}`, "subscription 1: no channel 99 is advertised"},
		{fmt.Sprintf(`{"op":"subscribe","subscriptions":[{"id":1,"channelId":%d},{"id":1,"channelId":%d},{"id":2,"channelId":%[1]d}]}`, id, id-1), "subscription 1 exists already; and 1 more subscriptions are refused"},
		{fmt.Sprintf(`{"op":"subscribe","subscriptions":[{"id":3,"channelId":%d}]}`, id), "subscription 1 has channel"},
	} {
		c.Send("%s", one.message)
		if got := c.Text("status"); got.Level != 2 || !strings.Contains(got.Message, one.want) {
			t.Errorf("%s: got level %d, %q, want 2, %q", one.message, got.Level, got.Message, one.want)
		}
	}
	if err := c.Write(viewer.OpBinary, []byte{1, 0, 0, 0, 0, 9}); err != nil {
		t.Fatal(err)
	}
	has(t, "binary", c.Text("status").Message, "publishing is not supported")
}

func TestSubscriptionsAreLimited(t *testing.T) {
	t.Parallel()
	node := &fakeNode{}
	const channels, most = 3000, 1000
	for i := range channels {
		node.channels = append(node.channels, foxglove.Channel{Name: fmt.Sprintf("c%04d", i)})
	}
	w := newWorld(t, node)
	put := w.channel("c0000")
	c := w.connect("", subprotocols[1])
	list := c.Text("advertise").Channels
	var b strings.Builder
	for i, ch := range list[2:] {
		fmt.Fprintf(&b, `,{"id":%d,"channelId":%d}`, i, ch.ID)
	}
	c.Send(`{"op":"subscribe","subscriptions":[%s]}`, b.String()[1:])
	has(t, "status", c.Text("status").Message, fmt.Sprintf("a viewer may have %d subscriptions; and %d more subscriptions are refused", most, channels-most-1))
	put([]byte("x"))
	if d := c.Data(); d.Subscription != 0 {
		t.Errorf("got subscription %d, want 0", d.Subscription)
	}
}

func TestViewersAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &fakeNode{})
	const most = 32
	var first *viewer.Client
	for range most {
		if c := w.connect("", subprotocols[0]); first == nil {
			first = c
		}
	}
	conn := w.dial()
	answer, err := viewer.Upgrade(conn, bufio.NewReader(conn), "/?token="+testToken, http.Header{"Sec-Websocket-Protocol": {subprotocols[0]}})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != 503 || !strings.Contains(string(text), "32 viewers are connected already") {
		t.Errorf("viewer %d: got %s, %s, want 503", most+1, answer.Status, text)
	}
	first.Conn.Close()
	await.NoError(t, func() error {
		conn := w.dial()
		answer, err := viewer.Upgrade(conn, bufio.NewReader(conn), "/?token="+testToken, http.Header{"Sec-Websocket-Protocol": {subprotocols[0]}})
		if err == nil && answer.StatusCode != 101 {
			err = fmt.Errorf("got %s after a viewer has left, want 101", answer.Status)
		}
		return err
	})
}

func TestChannelIsReadOnlyWhileViewersSubscribe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &fakeNode{channels: []foxglove.Channel{{Name: "imu"}}})
	w.channel("imu")([]byte("x"))
	a, b := w.connect("", subprotocols[0]), w.connect("", subprotocols[1])
	if n := w.Sources(); n != 0 {
		t.Errorf("without subscriptions: got %d sources", n)
	}
	for _, c := range []*viewer.Client{a, b} {
		c.Send(`{"op":"subscribe","subscriptions":[{"id":1,"channelId":%d}]}`, c.Channel("imu").ID)
		c.Data()
	}
	if n := w.Sources(); n != 1 {
		t.Errorf("with two viewers: got %d sources, want one for both", n)
	}
	a.Send(`{"op":"unsubscribe","subscriptionIds":[1]}`)
	b.Conn.Close()
	await.True(t, "no channel is read", func() bool { return w.Sources() == 0 })
}

// Viewers come, subscribe to random topics and go, while channels appear and vanish. Then the server ends with all goroutines.
func TestViewersComeAndGo(t *testing.T) {
	t.Parallel()
	node := &fakeNode{}
	w := newWorld(t, node)
	const channels = 20
	puts := make([]func([]byte), channels)
	list := make([]foxglove.Channel, channels)
	for i := range channels {
		list[i] = foxglove.Channel{Name: fmt.Sprintf("c%d", i)}
		puts[i] = w.channel(list[i].Name)
	}
	node.set(list...)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			puts[i%channels]([]byte("frame"))
			if i%1000 == 0 {
				node.set(list[:1+i/1000%channels]...)
			}
			time.Sleep(50 * time.Microsecond)
		}
	})
	var viewers sync.WaitGroup
	for i := range 8 {
		viewers.Go(func() {
			for round := range 5 {
				conn, err := net.Dial("tcp", w.addr)
				if err != nil {
					t.Error(err)
					return
				}
				c := viewer.Connect(fatal{t}, conn, "/?rate=1000&token="+testToken, subprotocols[i%2])
				for id := range channels {
					c.Send(`{"op":"subscribe","subscriptions":[{"id":%d,"channelId":%d}]}`, id, (id*7+i)%channels+1)
					c.Send(`{"op":"unsubscribe","subscriptionIds":[%d]}`, (id+round)%channels)
				}
				c.Send(`{"op":"subscribe","subscriptions":[{"id":99,"channelId":3}]}`)
				c.Text("status")
				conn.Close()
			}
		})
	}
	await.Return(t, "the viewers have gone", viewers.Wait)
	cancel()
	work.Wait()
	await.True(t, "no channel is read", func() bool { return w.Sources() == 0 })
}

// fatal is a test for goroutines other than the test's.
type fatal struct{ testing.TB }

func (f fatal) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func TestFloodOfRequestsEndsTheConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &fakeNode{})
	c := w.connect("", subprotocols[0])
	go func() {
		for range 5000 {
			if c.Write(viewer.OpText, []byte(`{"op":"unsubscribe","subscriptionIds":[]}`)) != nil {
				return
			}
		}
	}()
	if e := c.End(); e.Code != 1008 || !strings.Contains(e.Reason, "more than 50 messages or 500 subscriptions a second") {
		t.Errorf("got %v, want code 1008 with the limit", e)
	}
	c = w.connect("", subprotocols[0])
	c.Send(`{"op":"unsubscribe","subscriptionIds":[%s0]}`, strings.Repeat("0,", 10_000))
	if e := c.End(); e.Code != 1008 || !strings.Contains(e.Reason, "500 subscriptions a second") {
		t.Errorf("10000 ends of subscriptions: got %v, want code 1008 with the limit", e)
	}
}

func TestDaemonsEndIsGivenAsReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &fakeNode{})
	c := w.connect("", subprotocols[0])
	c.Text("advertise")
	go w.stop()
	if e := c.End(); e.Code != 1001 {
		t.Errorf("got %v, want code 1001", e)
	}
}

// has fails the test unless text contains part.
func has(t testing.TB, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: got %q, want %q in it", what, text, part)
	}
}

func TestMirrorIsShownWithItsLayoutAtOnce(t *testing.T) {
	t.Parallel()
	node := &fakeNode{channels: []foxglove.Channel{{Name: "krang.imu", Origin: "krang/imu", IsRequested: true}, {Name: "krang.mute", Origin: "krang/mute", IsRequested: true}}}
	w := newWorld(t, node)
	c := w.connect("", subprotocols[0])
	if list := c.Text("advertise").Channels; len(list) != 2 {
		t.Errorf("while the layouts are requested: got %+v, want only the topics of achbridge", list)
	}
	node.set(foxglove.Channel{Name: "krang.imu", Origin: "krang/imu", Layout: imu(t)}, foxglove.Channel{Name: "krang.mute", Origin: "krang/mute", IsRequested: true})
	if ch := c.Channel("krang.imu"); ch.Encoding != "cdr" {
		t.Errorf("got encoding %q, want cdr", ch.Encoding)
	}
	if ch := c.Channel("krang.mute"); ch.Encoding != "octet" { // the host does not answer
		t.Errorf("got encoding %q, want bytes", ch.Encoding)
	}
}
