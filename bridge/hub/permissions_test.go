package hub

import (
	"crypto/tls"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"achbridge/testnet/await"
)

// connectAs connects as a host, without a Client.
func (h *testHub) connectAs(host string) *nats.Conn {
	h.t.Helper()
	credentials := h.hosts[host]
	key, err := credentials.PublicKey()
	if err != nil {
		h.t.Fatal(err)
	}
	c, err := nats.Connect(h.address(), nats.Nkey(key, credentials.Sign), nats.Secure(&tls.Config{InsecureSkipVerify: true}), nats.NoReconnect(),
		nats.CustomInboxPrefix(InboxPrefix(host)), nats.Timeout(await.Limit), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(c.Close)
	return c
}

// allowed waits until the server has handled all earlier messages. It reports whether the server
// did not refuse subject.
func allowed(t *testing.T, c *nats.Conn, subject string) bool {
	t.Helper()
	if err := c.FlushTimeout(await.Limit); err != nil {
		t.Fatal(err)
	}
	err := c.LastError()
	return !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), strconv.Quote(subject))
}

func TestHostPublishesOnlyBelowItsSubject(t *testing.T) {
	c := startHub(t, "robot", "pc").connectAs("pc")
	for subject, want := range map[string]bool{
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
		ReadOf("pc"):                                true,
		ReadOf("robot"):                             false,
		InboxPrefix("robot") + ".x":                 false,
		"$JS.API.CONSUMER.MSG.NEXT.robot,imu.robot": false,
		"$JS.API.CONSUMER.CREATE.robot,imu.robot":   false,
		"$JS.API.CONSUMER.CREATE.robot,imu":         false,
		"$JS.API.CONSUMER.CREATE.robot,imu.pc.x":    false,
		"$JS.API.CONSUMER.DELETE.robot,imu.pc":      false,
		"$JS.API.CONSUMER.DELETE.robot,imu.robot":   false,
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
		if got := allowed(t, c, subject); got != want {
			t.Errorf("publishing to %s: allowed %v, want %v", subject, got, want)
		}
	}
}

func TestHostSubscribesOnlyToItsSubjects(t *testing.T) {
	c := startHub(t, "robot", "pc").connectAs("pc")
	for subject, want := range map[string]bool{
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
		if got := allowed(t, c, subject); got != want {
			t.Errorf("subscribing to %s: allowed %v, want %v", subject, got, want)
		}
		_ = sub.Unsubscribe()
	}
}
