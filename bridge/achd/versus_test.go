package achd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// The program of testnet/versus speaks achd's protocol and shares no code with us.
func TestInteroperatesWithIndependentProgram(t *testing.T) {
	t.Parallel()
	program := independent(t)
	t.Run("IsServed", func(t *testing.T) { independentClientIsServed(t, program) })
	t.Run("IsPulled", func(t *testing.T) { independentServerIsPulled(t, program) })
}

func independent(t *testing.T) string {
	t.Helper()
	cc := need.Program(t, "cc", "gcc")
	const peer = "../../localach/testdata/peer"
	program := filepath.Join(t.TempDir(), "achd")
	if out, err := exec.Command(cc, "-std=gnu11", "-O2", "-pthread", "-I"+peer, "-o", program, "../../testnet/versus/c/achd.c", peer+"/channel.c").CombinedOutput(); err != nil {
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
	await.True(t, "the client makes its channel", func() (ok bool) {
		var err error
		ch, err = dir.Open("imu")
		return err == nil
	})
	t.Cleanup(func() { ch.Close() })
	return ch
}

// The independent client gets, over TCP, every frame in order and none twice; over UDP and with get-last 1
// it gets the newest.
func independentClientIsServed(t *testing.T, program string) {
	for _, c := range []struct{ way, last string }{{"tcp", "0"}, {"tcp", "1"}, {"udp", "0"}, {"udp", "1"}} {
		r := newRobot(t, "127.0.0.1:0")
		w := r.channel("imu", 100, 64)
		ch := pulled(t, program, r.address, c.way, c.last)
		if g := ch.Geometry(); g != (localach.Geometry{FrameCount: 100, FrameSize: 64}) {
			t.Errorf("%v: got %v, want the geometry of the origin", c, g)
		}
		const frames = 100
		reader, buf := ch.Reader(), make([]byte, 64)
		for i := range uint64(frames) {
			if _, err := w.Put(binary.LittleEndian.AppendUint64(nil, i)); err != nil {
				t.Fatal(err)
			}
			n, err := reader.NextOldest(buf, await.Limit)
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

// Our client gets of the independent server, over TCP, every frame in order and none twice; over UDP and with get-last 1
// it gets the newest.
func independentServerIsPulled(t *testing.T, program string) {
	name := fmt.Sprintf("achd-versus-%d-%x", os.Getpid(), rand.Uint32()) // it looks in /dev/shm
	ch, err := localach.Shm.Create(name, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 100, FrameSize: 64}})
	if err != nil {
		t.Fatal(err)
	}
	w := ch.Writer()
	t.Cleanup(func() { w.Close(); ch.Close(); _ = localach.Shm.Unlink(name) })
	port := reservePort(t)
	cmd := exec.Command(program, "serve", port)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() }) // with a process for each client
	await.NoError(t, func() error {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
		}
		return err
	})
	for _, p := range []Remote{{}, {Newest: true}, {UDP: true}, {UDP: true, Newest: true}} {
		p.Host, p.Port, p.Channel = "127.0.0.1", port, name
		frames, begun := make(chan uint64, 1000), make(chan localach.Geometry, 1)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- p.Pull(ctx, func(g localach.Geometry, _ netip.Addr) (func([]byte), error) {
				begun <- g
				return func(frame []byte) { frames <- binary.LittleEndian.Uint64(frame) }, nil
			})
		}()
		if g := await.Receive(t, "the answer", begun); g != ch.Geometry() {
			t.Errorf("%+v: got %v, want the geometry of the origin", p, g)
		}
		await.True(t, "a frame", func() bool { // it flushes the channel after its answer
			if _, err := w.Put(binary.LittleEndian.AppendUint64(nil, 1)); err != nil {
				t.Fatal(err)
			}
			return len(frames) > 0
		})
		for i := range uint64(100) {
			if _, err := w.Put(binary.LittleEndian.AppendUint64(nil, i+2)); err != nil {
				t.Fatal(err)
			}
			for got := uint64(1); got != i+2; {
				if got = await.Receive(t, "the frame that was put", frames); got != i+2 && got != 1 {
					t.Fatalf("%+v: got frame %d, want %d", p, got, i+2)
				}
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: ended with %v", p, err)
		}
	}
}

// reservePort returns a TCP port that is this test's until its end. Whoever sets SO_REUSEADDR may listen there.
func reservePort(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(fd, &unix.SockaddrInet4{}))
	at, err2 := unix.Getsockname(fd)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(at.(*unix.SockaddrInet4).Port)
}
