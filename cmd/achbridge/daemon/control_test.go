package daemon

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"achbridge/bridge/rule"
	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/discovery"
	"achbridge/localach"
	"achbridge/testnet/await"
)

// startDaemon runs a daemon until the test ends.
func startDaemon(t *testing.T) (socket string) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	if err := trust.NewKey().Write(key); err != nil {
		t.Fatal(err)
	}
	socket, _ = startDaemonWith(t, &config.Config{Settings: config.Settings{Name: "krang", Listen: "127.0.0.1:0", Key: key}})
	return socket
}

// startDaemonWith is like startDaemon with the given configuration. dir is the daemon's directory of channels.
func startDaemonWith(t *testing.T, c *config.Config) (socket string, dir localach.Dir) {
	t.Helper()
	shm, err := os.MkdirTemp("/dev/shm", "achbridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(shm) })
	own := t.TempDir()
	c.Control, c.State = filepath.Join(own, "sock"), filepath.Join(own, "state")
	h := Host{Places: config.Places{Env: os.Getenv}, Dir: localach.Dir(shm)}
	d, err := h.New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, d, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := await.Receive(t, "the end of the daemon", done); err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	return c.Control, h.Dir
}

func TestControlRefusesInvalidRequests(t *testing.T) {
	socket := startDaemon(t)
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
	for _, r := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/v1/nothing", "", 404},
		{"GET", "/v1/mirror", "", 405},
		{"GET", "/v1/channels?match=a/b/c", "", 400},
		{"POST", "/v1/mirror", "", 400},
		{"POST", "/v1/mirror", "{", 400},
		{"POST", "/v1/mirror", `{"host":"krang","channel":"imu"} {}`, 400},
		{"POST", "/v1/mirror", `{"host":"krang","chanel":"imu"}`, 400},
		{"POST", "/v1/mirror", `{"host":"","channel":"imu"}`, 400},
		{"POST", "/v1/mirror", `{"host":"[","channel":"imu"}`, 400},
		{"POST", "/v1/mirror", `{"host":"atlas","channel":"imu","as":"a/b"}`, 400},
		{"POST", "/v1/mirror", `{"host":"atlas","channel":"imu","qos":{"priority":8}}`, 400},
		{"POST", "/v1/mirror", `{"host":"atlas","channel":"imu","qos":{"budget_ms":-1}}`, 400},
		{"POST", "/v1/mirror", `{"host":"atlas","channel":"imu","qos":{"max_rate_hz":-1}}`, 400},
		{"POST", "/v1/mirror", `{"host":"atlas","channel":"imu","qos":{"mode":"every","class":"command"}}`, 400},
		{"POST", "/v1/mirror", `{"host":"atlas","channel":"imu","qos":7}`, 400},
		{"POST", "/v1/push", `{"channel":"a/b","host":"atlas"}`, 400},
		{"POST", "/v1/push", `{"channel":"imu","host":"*"}`, 400},
		{"POST", "/v1/mirror", `{"host":"` + strings.Repeat("x", maxRequest) + `"}`, 400},
	} {
		req, err := http.NewRequest(r.method, "http://achbridge"+r.path, strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		var refusal api.ErrorReply
		json.Unmarshal(body, &refusal)
		if resp.StatusCode != r.want || r.want == 400 && refusal.Error == "" {
			t.Errorf("%s %s %.60s: got %d %s, want %d and a reason", r.method, r.path, r.body, resp.StatusCode, body, r.want)
		}
	}
}

func TestListsInJSONAreNeverNull(t *testing.T) {
	c := api.New(startDaemon(t))
	for _, path := range []string{"/v1/status", "/v1/channels"} {
		var v any
		answer, err := c.Get(t.Context(), path, &v)
		if err != nil {
			t.Fatal(err)
		}
		lists := strings.ReplaceAll(string(answer), `"processor_wait": null`, "") // this number is null while it is unknown
		if strings.Contains(lists, "null") {
			t.Errorf("%s: got %s, want empty lists", path, answer)
		}
	}
}

func TestFormerPathOfMirrorRequestStillWorks(t *testing.T) {
	c := api.New(startDaemon(t))
	var request rule.Mirror
	var made any
	if err := c.Post(t.Context(), "/v1/mirror", rule.Mirror{Host: "atlas", Channel: "imu", As: "atlas_imu"}, &made); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/mirror-request", "/v1/wish"} {
		request = rule.Mirror{}
		if _, err := c.Get(t.Context(), path+"?of=atlas/imu", &request); err != nil || request.As != "atlas_imu" {
			t.Errorf("%s: got %+v, %v, want the request for atlas_imu", path, request, err)
		}
	}
}

// A viewer may begin in the moment in which the mirror of the last viewer is removed.
func TestTemporaryMirrorOfNextViewerExists(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := trust.NewKey().Write(key); err != nil {
		t.Fatal(err)
	}
	reserved, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := reserved.LocalAddr().String()
	reserved.Close()
	peer, err := discovery.ParseStatic(address)
	if err != nil {
		t.Fatal(err)
	}
	_, robot := startDaemonWith(t, &config.Config{Settings: config.Settings{Name: "robot", Listen: address, Key: key}})
	socket, pc := startDaemonWith(t, &config.Config{
		Settings:    config.Settings{Name: "pc", Listen: "127.0.0.1:0", Key: key},
		StaticPeers: []discovery.Static{peer},
	})
	ch, err := robot.Create("idle", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if _, err := ch.Writer().Put([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	c := api.New(socket)
	await.True(t, "a temporary mirror", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, _, err := c.MirrorTemporarily(ctx, "robot/idle")
		return err == nil
	})
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		p, _, err := c.MirrorTemporarily(ctx, "robot/idle")
		if err == nil {
			var mirror *localach.Channel
			if mirror, err = pc.Open(p.Mirror); err == nil {
				mirror.Close()
			}
		}
		cancel()
		if err != nil {
			t.Fatalf("got %v, want a mirror", err)
		}
	}
}
