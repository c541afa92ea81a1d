package hub

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"achbridge/bridge/hub"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

func TestHostConnectsOnlyWithItsCredentials(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	if got, want := w.credentials("robot").Hub, "tls://localhost:4222"; got != want {
		t.Errorf("address in the credentials: got %s, want %s", got, want)
	}
	w.connect("robot")
	other := newWorld(t, "robot")
	if _, err := w.dial(other.credentials("robot")); err == nil || !strings.Contains(err.Error(), "another certificate") {
		t.Errorf("with credentials of another hub: got %v, want an error about the certificate", err)
	}
	unknown, err := hub.NewCredentials("robot", "tls://localhost", w.s.id.Hash)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.dial(unknown); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("with an unknown key: got %v, want a refusal", err)
	}
	public, _ := w.credentials("pc").PublicKey()
	_, err = nats.Connect("tls://"+w.s.Addr(), nats.Secure(nil), nats.NoReconnect(), nats.Nkey(public, unknown.Sign), nats.TLSHandshakeFirst())
	if err == nil {
		t.Error("connected with another host's key and a wrong signature, want a refusal")
	}
	if _, err := nats.Connect("nats://"+w.s.Addr(), nats.NoReconnect(), nats.UserInfo("hub", "hub")); err == nil {
		t.Error("connected as the hub itself, want a refusal")
	}
	w.until("the log names the cause", func() bool { return strings.Contains(w.logs.String(), "its key is of no host of this hub") })
	if strings.Contains(w.logs.String(), "authentication error") {
		t.Errorf("got two log lines for one refusal, want one:\n%s", w.logs)
	}
}

// The tests of package bridge/hub use all permitted subjects. This test uses forbidden ones.
func TestHostHasOnlyNeededPermissions(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	w.forbidden(w.connect("pc"), "ach.robot.here", hub.FrameSubject("robot", "imu"), "$JS.API.STREAM.DELETE.robot,imu")
}

// A consumer of another host could deliver a frame to the subject for requests.
func TestFrameIsNotMistakenForStreamRequest(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	pc := w.connect("pc")
	w.s.maker.take(&nats.Msg{Subject: hub.FrameSubject("pc", "imu"), Reply: hub.InboxPrefix("pc") + ".x", Data: []byte("ghost")})
	if text := w.make(pc, "pc", "imu"); text != "" {
		t.Fatal(text)
	}
	w.s.maker.mu.Lock()
	defer w.s.maker.mu.Unlock()
	if made := w.s.maker.hosts["pc"].made; made["ghost"] || !made["imu"] {
		t.Errorf("got streams %v, want only that of imu", made)
	}
}

func TestRemovedHostIsDisconnected(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	robot := w.connect("robot")
	second := w.connect("robot")
	pc := w.connect("pc")
	if text := w.make(robot, "robot", "imu"); text != "" {
		t.Fatal(text)
	}
	w.until("robot is seen", func() bool { return w.s.report().Hosts[1].Connections == 2 })
	if err := w.dir.Remove("robot"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w.until("both connections are closed", func() bool { return robot.IsClosed() && second.IsClosed() })
	if took := time.Since(began); took > time.Second && need.IsLong() {
		t.Errorf("disconnected after %v, want at most 1 s", took)
	}
	if _, err := w.dial(w.credentials("robot")); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("again: got %v, want a refusal", err)
	}
	if !pc.IsConnected() {
		t.Error("another host was disconnected too")
	}
	w.until("its frames are gone", func() bool { return w.s.report().Streams == 0 })
	w.until("the log says why", func() bool {
		return strings.Contains(w.logs.String(), `msg="host left" host=robot why="it was removed"`)
	})
}

func TestAddedHostConnectsWithoutRestart(t *testing.T) {
	w := newWorld(t)
	w.add("robot")
	w.until("robot may connect", func() bool { _, err := w.dial(w.credentials("robot")); return err == nil })
	if err := os.Remove(w.file("robot")); err != nil {
		t.Fatal(err)
	}
	if err := w.dir.Remove("robot"); err != nil {
		t.Fatal(err)
	}
	old := w.s
	w.add("robot") // with another key
	w.until("robot may connect with its new key", func() bool { _, err := w.dial(w.credentials("robot")); return err == nil })
	if w.s != old {
		t.Error("the hub has restarted, want it to keep running")
	}
}

func TestInvalidHostsFileKeepsPreviousHosts(t *testing.T) {
	w := newWorld(t, "robot")
	if err := os.WriteFile(w.dir.hosts(), []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.until("the log names the line", func() bool { return strings.Contains(w.logs.String(), "hosts:1: want a public key") })
	w.connect("robot")
}

func TestRestartedHubHasNoOldStreams(t *testing.T) {
	w := newWorld(t, "robot")
	robot := w.connect("robot")
	if text := w.make(robot, "robot", "imu"); text != "" {
		t.Fatal(text)
	}
	w.end()
	w.until("its connections end with the hub", func() bool { return robot.IsClosed() })
	store := filepath.Join("/dev/shm", storeName(w.dir))
	if err := os.MkdirAll(filepath.Join(store, "jetstream", "$G", "streams", "old"), 0o700); err != nil { // a killed hub leaves such a directory
		t.Fatal(err)
	}
	w.start()
	robot = w.connect("robot")
	if got := w.s.report().Streams; got != 0 {
		t.Errorf("got %d streams, want none", got)
	}
	if text := w.make(robot, "robot", "imu"); text != "" {
		t.Error(text)
	}
	w.end()
	if _, err := os.Stat(store); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s still exists after the hub has ended: %v", store, err)
	}
}

func TestHubWritesNoFrameToDisk(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	robot := w.connect("robot")
	pc := w.connect("pc")
	if text := w.make(robot, "robot", "imu"); text != "" {
		t.Fatal(text)
	}
	frame := strings.Repeat("x", hub.MaxPayload) // the largest possible frame
	if _, err := robot.Request(hub.FrameSubject("robot", "imu"), []byte(frame), await.Limit); err != nil {
		t.Fatal(err)
	}
	if text := w.read(pc, "pc", "robot,imu first"); text != "" {
		t.Fatal(text)
	}
	if m, err := pc.RequestWithContext(await.Context(t), "$JS.API.CONSUMER.MSG.NEXT.robot,imu.pc", []byte(hub.FetchBody)); err != nil || len(m.Data) != len(frame) {
		t.Fatalf("got %v, want the frame", err)
	}
	if !inMemory(w.s.store) {
		t.Errorf("%s is on a disk, want it in memory", w.s.store)
	}
	err := filepath.WalkDir(w.s.store, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("got file %s, want none", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if r := w.s.report(); r.Memory < int64(len(frame)) || r.Streams != 1 || r.Readers != 1 {
		t.Errorf("got %+v, want one stream, one reader, and the frame's size", r)
	}
	if err := robot.Publish(hub.FrameSubject("robot", "imu"), append([]byte(frame), 'x')); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("larger frame: got %v, want an error about its size", err)
	}
}

func TestHubLimitsStreams(t *testing.T) {
	w := newWorld(t, "robot")
	robot := w.connect("robot")
	if got := w.make(robot, "robot", ""); got != "the request names no channel" {
		t.Errorf("without a channel: got %q", got)
	}
	for range 2 {
		if got := w.make(robot, "robot", "imu"); got != "" {
			t.Errorf("same request again: got %q, want no error", got)
		}
	}
	w.s.maker.mu.Lock()
	for n := range maxChannels {
		w.s.maker.hosts["robot"].made[strings.Repeat("x", n+1)] = true
	}
	w.s.maker.mu.Unlock()
	if got := w.make(robot, "robot", "legs"); got != errTooMany.Error() {
		t.Errorf("one stream more than the limit: got %q, want %q", got, errTooMany)
	}
	w.s.maker.room = func() bool { return false }
	if got := w.make(robot, "robot", "imu"); got != "" {
		t.Errorf("existing stream at the limit: got %q, want no error", got)
	}
	clear(w.s.maker.hosts["robot"].made)
	if got := w.make(robot, "robot", "legs"); got != errFull.Error() {
		t.Errorf("without free memory: got %q, want %q", got, errFull)
	}
}

func TestHubMetricsCountHostTraffic(t *testing.T) {
	w := newWorld(t, "robot", "pc")
	robot := w.connect("robot")
	pc := w.connect("pc")
	got, err := pc.SubscribeSync("ach.*.to.pc.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := pc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := robot.Publish("ach.robot.to.pc.1", make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if _, err := got.NextMsg(await.Limit); err != nil {
		t.Fatal(err)
	}
	w.until("both are counted", func() bool {
		r := w.s.report()
		return len(r.Hosts) == 2 && r.Hosts[0].Host == "pc" && r.Hosts[0].Received == 1000 && r.Hosts[1].Sent == 1000 && r.Hosts[0].Connected
	})
	pc.Close()
	w.until("pc is away, and its count stays", func() bool { h := w.s.report().Hosts[0]; return !h.Connected && h.Received == 1000 })
	answer, err := http.Get("http://" + w.s.http.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, _ := io.ReadAll(answer.Body)
	for _, line := range []string{`achbridge_hub_host_bytes_total{direction="received",host="pc"} 1000`, `achbridge_hub_host_connected{host="pc"} 0`, `achbridge_hub_host_connected{host="robot"} 1`} {
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("want metric %s, got\n%s", line, page)
		}
	}
	health, err := http.Get("http://" + w.s.http.Addr().String() + "/healthz")
	if err != nil || health.StatusCode != http.StatusOK {
		t.Errorf("health: got %v, %v", health, err)
	}
}

func TestSecondHubInDirectoryIsRefused(t *testing.T) {
	w := newWorld(t)
	_, err := New(w.s.cfg)
	if err == nil || !strings.Contains(err.Error(), "a hub (pid ") {
		t.Errorf("got %v, want an error that names the process", err)
	}
	w.until("the first one works on", func() bool { return w.s.well() == nil })
}
