package hub

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// startDebian runs Debian's nats-server as a customer would, without one of our hubs. makes lets
// the hosts create their streams themselves.
func startDebian(t *testing.T, makes bool, hosts ...string) *testHub {
	t.Helper()
	h, run := newDebian(t, makes, hosts...)
	run()
	return h
}

// newDebian prepares the server. run starts it and returns a function that kills it; run may be
// called repeatedly.
func newDebian(t *testing.T, makes bool, hosts ...string) (h *testHub, run func() (kill func())) {
	t.Helper()
	program := need.Program(t, "nats-server", "nats-server")
	h = newHub(t, hosts...)
	path := filepath.Join(t.TempDir(), "hub.conf")
	h.writeConfig(path, "127.0.0.1:"+strconv.Itoa(h.port), makes)
	return h, func() func() { return h.runDebian(program, path) }
}

// runDebian starts the server and returns a function that kills it.
func (h *testHub) runDebian(program, config string) (kill func()) {
	h.t.Helper()
	log, err := os.Create(filepath.Join(h.t.(*testing.T).TempDir(), "log"))
	if err != nil {
		h.t.Fatal(err)
	}
	c := exec.Command(program, "-c", config)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		h.t.Fatal(err)
	}
	kill = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	h.t.Cleanup(func() {
		kill()
		log.Close()
		if text, _ := os.ReadFile(log.Name()); h.t.Failed() {
			h.t.Logf("nats-server: %s", text)
		}
	})
	return kill
}

func TestMissingStreamPermissionErrorNamesFix(t *testing.T) {
	t.Parallel()
	h := startDebian(t, false, "robot")
	out := h.connectedClient("robot").Channel("robot", "imu")
	defer out.Close()
	_, err := out.Put(await.Context(t), []byte("x"))
	if err == nil || !strings.Contains(err.Error(), "allow robot to publish to $JS.API.STREAM.CREATE.*") {
		t.Errorf("got %v, want the cure", err)
	}
}

func TestClientsRecoverAfterDebianServerRestart(t *testing.T) {
	t.Parallel()
	h, run := newDebian(t, true, "robot", "pc")
	kill := run()
	s := begin(t, h.connectedClient("robot"), h.connectedClient("pc"))
	kill()
	run()
	s.newer(t)
}
