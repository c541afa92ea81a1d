package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"achbridge/bridge/hub"
	"achbridge/testnet/await"
)

// consumers returns the consumers at the hub, by stream and name.
func (w *world) consumers() map[string]*server.ConsumerInfo {
	w.Helper()
	z, err := w.s.nats.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Consumer: true, Config: true})
	if err != nil {
		w.Fatal(err)
	}
	all := map[string]*server.ConsumerInfo{}
	for _, detail := range z.AccountDetails {
		for _, s := range detail.Streams {
			for _, c := range s.Consumer {
				all[s.Name+" "+c.Name] = c
			}
		}
	}
	return all
}

// put makes the stream of a host's channel, and publishes a frame to it.
func (w *world) put(conn *nats.Conn, host, channel, frame string) {
	w.Helper()
	if text := w.make(conn, host, channel); text != "" {
		w.Fatal(text)
	}
	if _, err := conn.Request(hub.FrameSubject(host, channel), []byte(frame), await.Limit); err != nil {
		w.Fatal(err)
	}
}

// newest returns the frame that the hub keeps of a channel, or the text of an error. The request has the permissions of the hub.
func (w *world) newest(host, channel string) string {
	w.Helper()
	stream, err := w.s.maker.js.Stream(await.Context(w), hub.StreamName(host, channel))
	if err != nil {
		return err.Error()
	}
	m, err := stream.GetLastMsgForSubject(await.Context(w), hub.FrameSubject(host, channel))
	if err != nil {
		return err.Error()
	}
	return string(m.Data)
}

// consumerRequest returns the body of a request to a nats-server for a consumer.
func consumerRequest(t testing.TB, stream string, config jetstream.ConsumerConfig) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{"stream_name": stream, "config": config})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// hostile has consumers with which a host could harm others if the nats-server made them for it.
var hostile = map[string]jetstream.ConsumerConfig{
	"all that there is":   {Name: "pc", FilterSubject: ">", AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: 24 * time.Hour},
	"pushed":              {Name: "pc", DeliverSubject: "_INBOX.pc.x", FilterSubject: "ach.robot.f.imu", AckPolicy: jetstream.AckNonePolicy},
	"into another stream": {Name: "pc", DeliverSubject: "ach.robot.f.imu", FilterSubject: "ach.pc.f.x", AckPolicy: jetstream.AckNonePolicy},
	"many pulls":          {Name: "pc", FilterSubject: "ach.robot.f.imu", AckPolicy: jetstream.AckNonePolicy, MaxWaiting: 1 << 30},
	"metadata":            {Name: "pc", FilterSubject: "ach.robot.f.imu", AckPolicy: jetstream.AckNonePolicy, Metadata: map[string]string{"x": strings.Repeat("x", 12<<10)}},
	"for ever":            {Durable: "pc", FilterSubject: "ach.robot.f.imu", AckPolicy: jetstream.AckNonePolicy},
}

func TestHostCannotMakeConsumers(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	robot, pc := w.connect("robot"), w.connect("pc")
	w.put(robot, "robot", "imu", "newest")
	w.put(pc, "pc", "x", "frame")
	for name, config := range hostile {
		for _, stream := range []string{"robot,imu", "pc,x"} {
			for _, subject := range []string{"$JS.API.CONSUMER.CREATE." + stream + ".pc." + config.FilterSubject, "$JS.API.CONSUMER.CREATE." + stream + ".pc",
				"$JS.API.CONSUMER.CREATE." + stream, "$JS.API.CONSUMER.DURABLE.CREATE." + stream + ".pc"} {
				if err := pc.PublishRequest(subject, pc.NewInbox(), consumerRequest(t, stream, config)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := pc.FlushTimeout(await.Limit); err != nil {
			t.Fatal(err)
		}
		if made := w.consumers(); len(made) > 0 {
			t.Errorf("%s: got %d consumers, want none", name, len(made))
		}
	}
}

func TestHubMakesOnlyStandardConsumers(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	robot, pc := w.connect("robot"), w.connect("pc")
	w.put(robot, "robot", "imu", "newest")
	body := consumerRequest(t, "robot,imu", hostile["all that there is"])
	for _, request := range []string{"", "first", " first", ">", "*", "robot", "robot,*", "robot,>", "robot,imu.pc", "robot,none", "robot,imu >", "robot,imu  first", "robot,imu first first", string(body),
		strings.Repeat("x", maxRequest)} {
		if text := w.read(pc, "pc", request); text == "" {
			t.Errorf("%.60q: got a consumer, want a refusal", request)
		}
	}
	if made := w.consumers(); len(made) > 0 {
		t.Fatalf("got %d consumers, want none", len(made))
	}
	for _, request := range []string{"robot,imu", "robot,imu first", "robot,imu first", "robot,imu"} {
		if text := w.read(pc, "pc", request); text != "" {
			t.Errorf("%q: got %q, want a consumer", request, text)
		}
	}
	made := w.consumers()
	c := made["robot,imu pc"]
	if len(made) != 1 || c == nil {
		t.Fatalf("got %d consumers, want only that of pc", len(made))
	}
	got := c.Config
	if got.Name != "pc" || got.Durable != "" || got.DeliverSubject != "" || got.FilterSubject != "ach.robot.f.imu" || len(got.FilterSubjects) > 0 || got.MaxWaiting != 8 ||
		got.MaxRequestBatch != 1 || got.MaxRequestExpires != 10*time.Second || got.InactiveThreshold != 2*time.Second || !got.MemoryStorage || got.AckPolicy != server.AckNone {
		t.Errorf("got consumer %+v, want the only permitted form", got)
	}
}

// The first request of a connection replaces the consumer of an earlier connection, so that the newest frame is sent again.
func TestReconnectedConsumerStartsWithNewestFrame(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	robot, pc := w.connect("robot"), w.connect("pc")
	w.put(robot, "robot", "imu", "newest")
	for n := range 2 {
		if text := w.read(pc, "pc", "robot,imu first"); text != "" {
			t.Fatal(text)
		}
		m, err := pc.Request("$JS.API.CONSUMER.MSG.NEXT.robot,imu.pc", []byte(hub.FetchBody), await.Limit)
		if err != nil || string(m.Data) != "newest" {
			t.Fatalf("fetch %d: got %v, %v, want the newest frame", n, m, err)
		}
	}
	if text := w.read(pc, "pc", "robot,imu"); text != "" {
		t.Fatal(text)
	}
	if got := w.consumers()["robot,imu pc"].Delivered.Consumer; got != 1 {
		t.Errorf("got a consumer that has sent %d frames, want the same one as before, with 1", got)
	}
}

// A fetch waits at the hub until there is a frame, so a host could start any number of them.
func TestFetchesOfHostAreLimited(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	robot, pc := w.connect("robot"), w.connect("pc")
	if text := w.make(robot, "robot", "imu"); text != "" {
		t.Fatal(text)
	}
	if text := w.read(pc, "pc", "robot,imu"); text != "" {
		t.Fatal(text)
	}
	replies := pc.NewInbox()
	if _, err := pc.SubscribeSync(replies + ".*"); err != nil {
		t.Fatal(err)
	}
	for n := range 10_000 {
		if err := pc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.robot,imu.pc", fmt.Sprint(replies, ".", n), []byte(hub.FetchBody)); err != nil {
			t.Fatal(err)
		}
	}
	if err := pc.FlushTimeout(await.Limit); err != nil {
		t.Fatal(err)
	}
	w.until("the consumer has pulls", func() bool { return w.consumers()["robot,imu pc"].NumWaiting > 0 })
	if got := w.consumers()["robot,imu pc"].NumWaiting; got > 8 {
		t.Errorf("got %d waiting fetches, want at most 8", got)
	}
}

// A nats-server publishes an answer to any reply subject that a request names.
func TestHubAnswersReachNoStreamOfOtherHost(t *testing.T) {
	for name, attack := range map[string]func(w *world, pc *nats.Conn){
		"answer to a frame": func(_ *world, pc *nats.Conn) {
			_ = pc.PublishRequest("ach.pc.f.x", "ach.robot.f.imu", []byte("mine"))
		},
		"frame": func(_ *world, pc *nats.Conn) {
			_ = pc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.pc,x.pc", "ach.robot.f.imu", []byte(hub.FetchBody))
		},
		"frame without a stream's name": func(_ *world, pc *nats.Conn) {
			_ = pc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.robot,imu.pc", "ach.robot.f.imu", []byte(hub.FetchBody))
		},
		"error": func(_ *world, pc *nats.Conn) {
			_ = pc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.pc,x.pc", "ach.robot.f.imu", []byte(`{"batch":-1,"expires":"x"}`))
		},
		"deletion": func(_ *world, pc *nats.Conn) { // the server itself publishes the request to delete, without permissions
			_ = pc.PublishRequest("ach.pc.f.x", "_INBOX.pc.x", nil)
			_ = pc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.pc,x.pc", "$JS.API.STREAM.DELETE.robot,imu", nil)
			_ = pc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.pc,x.pc", "$JS.API.STREAM.DELETE.robot,imu", []byte(`{"batch":1,"no_wait":true}`))
		},
		"purge": func(_ *world, pc *nats.Conn) {
			_ = pc.PublishRequest("ach.pc.f.x", "$JS.API.STREAM.PURGE.robot,imu", []byte("mine"))
		},
		"answer of the hub": func(_ *world, pc *nats.Conn) {
			_ = pc.PublishRequest(hub.MakeOf("pc"), "ach.robot.f.imu", nil)
		},
		"trace": func(_ *world, pc *nats.Conn) {
			_ = pc.PublishMsg(&nats.Msg{Subject: "ach.pc.f.x", Header: nats.Header{"Nats-Trace-Dest": {"ach.robot.f.imu"}}, Data: []byte("mine")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "robot", "pc")
			robot, pc := w.connect("robot"), w.connect("pc")
			w.put(pc, "pc", "x", "mine")
			w.put(robot, "robot", "imu", "newest")
			for _, stream := range []string{"pc,x", "robot,imu"} {
				if text := w.read(pc, "pc", stream); text != "" {
					t.Fatal(text)
				}
			}
			attack(w, pc)
			w.until("the hub closes the connection", func() bool { _ = pc.Flush(); return pc.IsClosed() })
			w.put(robot, "robot", "other", "later")
			if got := w.newest("robot", "imu"); got != "newest" {
				t.Errorf("the newest frame of robot/imu = %.60q, want newest", got)
			}
		})
	}
}

// A nats-server without the front accepts fetches that never end, or that make it send heartbeats without a pause.
func TestHubRefusesNonstandardFetches(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	robot := w.connect("robot")
	w.put(robot, "robot", "imu", "newest")
	for _, body := range []string{"", "1000000", `{"batch":1}`, `{"batch":1,"no_wait":true}`, `{"batch":1,"expires":9000000000,"idle_heartbeat":1}`,
		`{"batch":1,"expires":10000000001}`, `{"batch":9,"expires":10000000000}`, hub.FetchBody + " ", strings.Repeat("x", len(hub.FetchBody))} {
		pc := w.connect("pc")
		if text := w.read(pc, "pc", "robot,imu first"); text != "" {
			t.Fatal(text)
		}
		if err := pc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.robot,imu.pc", pc.NewInbox(), []byte(body)); err != nil {
			t.Fatal(err)
		}
		w.until("the hub closes the connection", func() bool { _ = pc.Flush(); return pc.IsClosed() })
		if got := w.consumers()["robot,imu pc"]; got != nil && got.NumWaiting+int(got.Delivered.Consumer) > 0 {
			t.Errorf("fetch %q reached the consumer: got %d waiting, %d frames sent, want none", body, got.NumWaiting, got.Delivered.Consumer)
		}
	}
}

func TestRemovedHostLeavesNothing(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	robot, pc := w.connect("robot"), w.connect("pc")
	const channels = 200
	for n := range channels {
		w.put(robot, "robot", fmt.Sprint("imu", n), "frame")
		w.put(pc, "pc", fmt.Sprint("command", n), "frame")
		config, err := hub.ConsumerOf("pc", fmt.Sprint("robot,imu", n))
		if err != nil {
			t.Fatal(err)
		}
		config.InactiveThreshold = 24 * time.Hour // the server does not end it within the test
		if _, err := w.s.maker.js.CreateConsumer(await.Context(t), fmt.Sprint("robot,imu", n), config); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.dir.Remove("pc"); err != nil {
		t.Fatal(err)
	}
	w.until("its streams are gone", func() bool { return w.s.report().Streams == channels })
	w.until("its consumers are gone", func() bool { return len(w.consumers()) == 0 })
}

func TestRequestsOfHostDelayNoOtherHost(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	robot, pc := w.connect("robot"), w.connect("pc")
	const requests = 900
	for n := range requests {
		if err := pc.PublishRequest(hub.MakeOf("pc"), "_INBOX.pc.x", []byte(fmt.Sprint("channel", n))); err != nil {
			t.Fatal(err)
		}
	}
	if err := pc.FlushTimeout(await.Limit); err != nil {
		t.Fatal(err)
	}
	if text := w.make(robot, "robot", "imu"); text != "" {
		t.Fatal(text)
	}
	if got := w.s.report().Streams; got > requests {
		t.Errorf("robot's stream was made after all %d of pc", requests)
	}
}

// A message is sent to each subscription that matches its subject. So with each repeated subscription the hub would write every
// answer once more.
func TestHostSubscribesOnceToSubject(t *testing.T) {
	for _, subject := range []string{"ach.*.here", "ach.*.to.pc.>", "_INBOX.pc.x", "_INBOX.pc.x.*"} {
		t.Run(subject, func(t *testing.T) {
			pc := newWorld(t, "pc").connect("pc")
			for range 2 {
				sub, err := pc.SubscribeSync(subject)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(sub.Unsubscribe(), pc.FlushTimeout(await.Limit)); err != nil {
					t.Fatalf("subscribing after the end of the first subscription: %v", err)
				}
			}
			for range 2 {
				if _, err := pc.SubscribeSync(subject); err != nil {
					t.Fatal(err)
				}
			}
			await.True(t, "the hub closes the connection", func() bool { _ = pc.Flush(); return pc.IsClosed() })
		})
	}
}

// The requests of all hosts reach the hub over one connection to the server.
func TestSurplusRequestsDelayNoOtherHost(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	robot, pc := w.connect("robot"), w.connect("pc")
	if _, err := pc.Subscribe("_INBOX.pc.x", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var wait sync.WaitGroup
	wait.Go(func() {
		for !stop.Load() && pc.PublishRequest(hub.MakeOf("pc"), "_INBOX.pc.x", make([]byte, maxRequest)) == nil {
		}
	})
	defer wait.Wait()
	defer stop.Store(true)
	w.until("there are surplus requests", func() bool { return pc.Stats().OutMsgs > 20*requestBurst })
	for range 20 {
		if text := w.make(robot, "robot", "imu"); text != "" {
			t.Error(text)
		}
	}
	if got := pc.Stats().InMsgs; got > 2*requestBurst {
		t.Errorf("got %d answered requests, want at most %d", got, 2*requestBurst)
	}
}
