package hub

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// startServer runs a nats-server that knows these hosts, with permissions as a hub of ours
// gives them, and one operator who may do everything.
func startServer(t *testing.T, hosts ...string) *server.Server {
	t.Helper()
	options := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Users: []*server.User{{Username: "operator", Password: "operator"}}}
	for _, host := range hosts {
		p := PermissionsOf(host)
		options.Users = append(options.Users, &server.User{Username: host, Password: host, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: p.Publish}, Subscribe: &server.SubjectPermission{Allow: p.Subscribe}}})
	}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready after 10 s")
	}
	return s
}

// connectAs also returns what the server complains of.
func connectAs(t *testing.T, s *server.Server, host string) (*nats.Conn, <-chan error) {
	t.Helper()
	complaints := make(chan error, 16)
	c, err := nats.Connect(s.ClientURL(), nats.UserInfo(host, host), nats.CustomInboxPrefix(InboxPrefix(host)),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { complaints <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, complaints
}

// complains waits until the server has answered all that came before, and reports whether it
// complained of a lack of permission.
func complains(t *testing.T, c *nats.Conn, complaints <-chan error) bool {
	t.Helper()
	if err := c.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-complaints:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Fatalf("got %v, want a lack of permission", err)
		}
		return true
	case <-time.After(100 * time.Millisecond):
		return false
	}
}

func TestAHostPublishesBelowItsOwnSubjectAlone(t *testing.T) {
	s := startServer(t, "robot", "pc")
	c, complaints := connectAs(t, s, "pc")
	for subject, allowed := range map[string]bool{
		hereOf("pc"):                                true,
		controlOf("pc", "robot", "1"):               true,
		FrameSubject("pc", "imu"):                   true,
		MakeOf("pc"):                                true,
		"$JS.API.CONSUMER.MSG.NEXT.robot,imu.pc":    true,
		"$JS.API.STREAM.INFO.robot,imu":             false,
		hereOf("robot"):                             false,
		FrameSubject("robot", "imu"):                false,
		controlOf("robot", "pc", "1"):               false,
		MakeOf("robot"):                             false,
		InboxPrefix("robot") + ".x":                 false,
		"$JS.API.CONSUMER.MSG.NEXT.robot,imu.robot": false,
		"$JS.API.CONSUMER.CREATE.robot,imu.robot":   false,
		"$JS.API.CONSUMER.CREATE.robot,imu":         false,
		"$JS.API.CONSUMER.DELETE.robot,imu.pc":      false,
		"$JS.API.CONSUMER.PAUSE.robot,imu.pc":       false,
		"$JS.API.STREAM.CREATE.pc,imu":              false,
		"$JS.API.STREAM.UPDATE.pc,imu":              false,
		"$JS.API.STREAM.DELETE.pc,imu":              false,
		"$JS.API.STREAM.PURGE.pc,imu":               false,
		"$JS.API.STREAM.MSG.GET.robot,imu":          false,
		"$JS.API.STREAM.MSG.DELETE.pc,imu":          false,
		"$JS.API.DIRECT.GET.robot,imu":              false,
		"$JS.API.STREAM.NAMES":                      false,
		"$JS.API.ACCOUNT.PURGE.$G":                  false,
		"$SYS.REQ.SERVER.PING":                      false,
		"robot":                                     false,
	} {
		if err := c.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		if complained := complains(t, c, complaints); complained == allowed {
			t.Errorf("publishing to %s: allowed %v, want %v", subject, !complained, allowed)
		}
	}
}

func TestAHostHearsOnlyWhatIsForIt(t *testing.T) {
	s := startServer(t, "robot", "pc")
	c, complaints := connectAs(t, s, "pc")
	for subject, allowed := range map[string]bool{
		allHere:                      true,
		controlTo("pc"):              true,
		InboxPrefix("pc") + ".>":     true,
		FrameSubject("robot", "imu"): false,
		FrameSubject("pc", "imu"):    false,
		controlTo("robot"):           false,
		InboxPrefix("robot") + ".>":  false,
		"_INBOX.>":                   false,
		"ach.>":                      false,
		"ach.*.f.*":                  false,
		"ach.*.to.>":                 false,
		AllMake:                      false,
		">":                          false,
		"$JS.EVENT.>":                false,
		"$JS.API.>":                  false,
		"$SYS.>":                     false,
	} {
		sub, err := c.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		if complained := complains(t, c, complaints); complained == allowed {
			t.Errorf("subscribing to %s: allowed %v, want %v", subject, !complained, allowed)
		}
		_ = sub.Unsubscribe()
	}
}

func TestAHostPullsTheNewestFrameOfAnother(t *testing.T) {
	s := startServer(t, "robot", "pc")
	operator, _ := connectAs(t, s, "operator")
	robot, _ := connectAs(t, s, "robot")
	pc, complaints := connectAs(t, s, "pc")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	owner, err := jetstream.New(operator)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := owner.CreateStream(ctx, StreamOf("robot", "imu")); err != nil {
		t.Fatal(err)
	}
	for _, frame := range []string{"older", "newest"} {
		if _, err := robot.RequestWithContext(ctx, FrameSubject("robot", "imu"), []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	reader, err := jetstream.New(pc)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := reader.CreateConsumer(ctx, StreamName("robot", "imu"), jetstream.ConsumerConfig{Name: consumerOf("pc"),
		FilterSubject: FrameSubject("robot", "imu"), AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, MemoryStorage: true})
	if err != nil {
		t.Fatal(err)
	}
	message, err := consumer.Next()
	if err != nil || string(message.Data()) != "newest" {
		t.Fatalf("got %v, %v, want the newest frame", message, err)
	}
	if complains(t, pc, complaints) {
		t.Error("got a complaint, want none")
	}
}
