package achd

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"achbridge/localach"
)

// independent builds the program of testnet/versus that speaks achd's protocol and shares no
// code with us.
func independent(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("needs a C compiler: apt-get install gcc libc6-dev")
	}
	const peer = "../../localach/testdata/peer"
	program := filepath.Join(t.TempDir(), "achd")
	if out, err := exec.Command("cc", "-std=gnu11", "-O2", "-pthread", "-I"+peer, "-o", program, "../../testnet/versus/c/achd.c", peer+"/channel.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// pulled runs the independent client and returns the channel that it feeds.
func pulled(t *testing.T, program, address, way, last string) *localach.Channel {
	t.Helper()
	dir := localach.Dir(t.TempDir())
	host, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(program, "pull", host, port, "imu", dir.Path("imu"), way, last)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var ch *localach.Channel
	await(t, "the client makes its channel", func() (ok bool) {
		var err error
		ch, err = dir.Open("imu")
		return err == nil
	})
	t.Cleanup(func() { ch.Close() })
	return ch
}

// The independent client gets, over TCP, every frame in order and none twice; over UDP and with get-last 1
// it gets the newest.
func TestIndependentClientIsServed(t *testing.T) {
	program := independent(t)
	for _, c := range []struct{ way, last string }{{"tcp", "0"}, {"tcp", "1"}, {"udp", "0"}, {"udp", "1"}} {
		r := newRobot(t, "127.0.0.1:0")
		w := r.channel("imu", 100, 64)
		ch := pulled(t, program, r.address, c.way, c.last)
		if g := ch.Geometry(); g != (localach.Geometry{FrameCount: 100, FrameSize: 64}) {
			t.Errorf("%v: got %v, want the geometry of the origin", c, g)
		}
		const frames = 200
		reader, buf := ch.Reader(), make([]byte, 64)
		for i := range uint64(frames) {
			if _, err := w.Put(binary.LittleEndian.AppendUint64(nil, i)); err != nil {
				t.Fatal(err)
			}
			n, err := reader.NextOldest(buf, 10*time.Second)
			if err != nil || n != 8 {
				t.Fatalf("%v: frame %d: %d bytes, %v", c, i, n, err)
			}
			if got := binary.LittleEndian.Uint64(buf); got != i {
				t.Fatalf("%v: got frame %d, want %d", c, got, i)
			}
		}
		if _, err := reader.NextOldest(buf, 20*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v: one more frame, %v", c, err)
		}
	}
}
