package hub

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"achbridge/testnet/await"
)

// problemOf waits for the reason why a client does not connect.
func problemOf(t *testing.T, c *Client) error {
	t.Helper()
	await.True(t, "refused", func() bool { return c.State().Err != nil })
	state := c.State()
	if state.Connected {
		t.Error("connected, want not")
	}
	if text := state.Err.Error(); strings.ContainsAny(text, "\n") || strings.Count(text, state.Address) != 1 {
		t.Errorf("got %q, want one sentence with the address once", text)
	}
	return state.Err
}

func TestWrongCredentialsErrorIsOneSentence(t *testing.T) {
	h := startHub(t, "robot")
	other, err := NewCredentials("robot", h.address(), h.certificate)
	if err != nil {
		t.Fatal(err)
	}
	h.hosts["robot"] = other
	got := problemOf(t, h.client("robot"))
	want := fmt.Sprintf("hub %s: the hub refuses the credentials of robot: they were removed or are of another hub; run achbridge hub add robot there and copy the file", h.address())
	if !errors.Is(got, ErrRefused) || got.Error() != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A client that is refused repeatedly logs the reason only once.
func TestConnectionErrorIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	c, err := New(Config{Credentials: newCredentials(t), Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.noteProblem(ErrRefused)
	}
	c.noteProblem(ErrCertificate)
	if got := strings.Count(log.String(), "\n"); got != 2 {
		t.Errorf("got %d lines, want one for each cause:\n%s", got, &log)
	}
}

func TestRemovedHostSeesRefusal(t *testing.T) {
	h := startHub(t, "robot")
	robot := h.connectedClient("robot")
	options := h.options
	options.Port, options.Nkeys = h.port, nil
	if err := h.server.ReloadOptions(&options); err != nil {
		t.Fatal(err)
	}
	await.True(t, "told", func() bool { return errors.Is(robot.State().Err, ErrRefused) })
}

func TestChangedHubCertificateIsRefused(t *testing.T) {
	h := startHub(t, "robot")
	c := h.hosts["robot"]
	c.Certificate = make([]byte, 32)
	h.hosts["robot"] = c
	if got := problemOf(t, h.client("robot")); !errors.Is(got, ErrCertificate) || !strings.Contains(got.Error(), "copy the credentials file of robot again from the hub") {
		t.Errorf("got %q, want ErrCertificate with its cure", got)
	}
}

func TestUnknownHubCertificateIsRefused(t *testing.T) {
	h := startHub(t, "robot")
	c := h.hosts["robot"]
	c.Certificate = nil
	h.hosts["robot"] = c
	if got := problemOf(t, h.client("robot")); !errors.Is(got, ErrCertificate) || !strings.Contains(got.Error(), "put its hash into the credentials file") {
		t.Errorf("got %q, want ErrCertificate with its cure", got)
	}
}

func TestHubCertificateOfAuthorityIsAccepted(t *testing.T) {
	h := startHub(t, "robot")
	c := h.hosts["robot"]
	c.Certificate = nil
	client, err := New(Config{Credentials: c, Hub: h.address(), roots: h.roots()})
	if err != nil {
		t.Fatal(err)
	}
	runClient(t, client)
	await.True(t, "connected", func() bool { return client.State().Connected })
}

// answering starts a server that sends the same greeting on every connection.
func answering(t testing.TB, greeting string, after func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(greeting))
			if after != nil {
				after(c)
			}
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "tls://" + l.Addr().String()
}

// pretender starts a server that greets like a hub, with more in its INFO. It reads the host's
// first messages, calls say, and then only reads.
func (h *testHub) pretender(more string, say func(net.Conn)) (at string) {
	h.t.Helper()
	greeting := `INFO {"tls_required":true,"proto":1,"headers":true,"nonce":"abc","max_payload":1048576` + more + "}\r\n"
	return answering(h.t, greeting, func(c net.Conn) {
		_ = c.SetDeadline(await.Deadline())
		secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{h.tls}})
		_, _ = secure.Read(make([]byte, 4096))
		say(secure)
		_, _ = io.Copy(io.Discard, secure)
	})
}

func TestNonNATSServerIsRefusedAsHub(t *testing.T) {
	h := newHub(t, "robot")
	for _, c := range []struct{ greeting, want string }{
		{"220 mail.example.com ESMTP\r\n", "the program that answers there is not a nats-server"},
		{"INFO {}\r\n", "it offers no TLS: give the nats-server a certificate"},
		{"INFO {\"tls_required\":true}\r\nMSG a 1 5\r\n", "the program that answers there is not a nats-server"},
		{strings.Repeat("x", 2*maxLine), "its greeting is longer than 32768 bytes"},
		{"INFO {\"tls_required\":true}\r\nno TLS\r\n", "the program that answers there is not a nats-server"},
	} {
		client := h.client("robot", answering(t, c.greeting, nil))
		if got := problemOf(t, client); !strings.Contains(got.Error(), c.want) {
			t.Errorf("%.30q: got %q, want %s", c.greeting, got, c.want)
		}
	}
}

func TestOversizeHubMessageEndsConnection(t *testing.T) {
	h := newHub(t, "robot")
	for _, lie := range []string{"MSG ach.a.here 1 2000000000\r\n", "HMSG a 1 12 2000000000\r\n", "MSG " + strings.Repeat("a", 2*maxLine)} {
		at := h.pretender("", func(c net.Conn) { _, _ = c.Write([]byte("PONG\r\n" + lie)) })
		client := h.client("robot", at)
		await.True(t, "left", func() bool { return client.State().Err != nil })
		if got := client.State().Err.Error(); !strings.Contains(got, "it announced a message of") && !strings.Contains(got, "it sent a line of more") {
			t.Errorf("%.30q: got %q, want what it announced", lie, got)
		}
	}
}

func TestFrameAboveMaxPayloadErrorNamesFix(t *testing.T) {
	h := newHub(t, "robot")
	h.options.MaxPayload = 64 << 10
	h.start()
	out := h.connectedClient("robot").Channel("robot", "camera")
	defer out.Close()
	_, err := out.Put(context.Background(), make([]byte, 64<<10+1))
	want := "frame of 65537 bytes: larger than the hub takes, 65536 bytes in one message: raise max_payload in the hub's configuration"
	if !errors.Is(err, ErrTooLarge) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	putOne(t, out, strings.Repeat("x", 64<<10))
}

// A hub must not make a robot dial other servers of its cluster.
func TestClientDialsNoAddressFromHub(t *testing.T) {
	h := newHub(t, "robot")
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	dialled := make(chan struct{}, 100)
	go func() {
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			c.Close()
			dialled <- struct{}{}
		}
	}()
	at := h.pretender(`,"connect_urls":["`+other.Addr().String()+`"]`, func(c net.Conn) { _, _ = c.Write([]byte("-ERR 'Authorization Violation'\r\n")) })
	if err := problemOf(t, h.client("robot", at)); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v, want ErrRefused", err)
	}
	select {
	case <-dialled:
		t.Error("an address of the hub's choice was dialled")
	default:
	}
}
