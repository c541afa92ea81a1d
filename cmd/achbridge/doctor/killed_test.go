package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// patientWith returns a patient whose directory has one channel.
func patientWith(t *testing.T, channel string) (*patient, *localach.Channel) {
	t.Helper()
	p := newPatient(t)
	ch, err := p.Dir.Create(channel, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: 64}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ch.Close() })
	return p, ch
}

// peer starts a C program that uses a channel as programs linked with libach do.
func peer(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	need.Program(t, "cc", "gcc")
	bin := filepath.Join(t.TempDir(), "peer")
	const sources = "../../../localach/testdata/peer/"
	if out, err := exec.Command("cc", "-O2", "-pthread", "-o", bin, sources+"channel.c", sources+"main.c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	cmd := exec.Command(bin, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	return cmd
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func TestDoctorFindsReadersKilledWhileWaiting(t *testing.T) {
	if !localach.KilledReaderHangsPuts() || !seesAllProcesses() {
		t.Skip("needs glibc up to 2.40, and the first PID namespace")
	}
	p, ch := patientWith(t, "imu")
	path := p.Dir.Path("imu")
	if _, known := usersOf(fileID{}); !known {
		t.Skip("this user may not examine all processes: run as root")
	}
	peer(t, path, "put", "0", "64", "1000000", "1")
	live := peer(t, path, "wait")
	await.True(t, "the reader waits", func() bool { s, err := ch.Stat(); return err == nil && s.Waiters > 0 })
	expect(t, checkChannels(t.Context(), p), fit, "")
	kill(live)
	await.True(t, "the killed reader is found", func() bool {
		r := checkChannels(t.Context(), p)
		return r.State == failing && r.Fix != ""
	})
	r := checkChannels(t.Context(), p)
	expect(t, r, failing, "a reader of imu was killed while it waited")
	expect(t, r, failing, "channel rm imu")

	peer(t, path, "wait") // a live reader; the put that must wake it hangs
	await.True(t, "a put hangs", ch.WakeHangs)
	expect(t, checkChannels(t.Context(), p), failing, "a put into imu hangs")
}

func TestDoctorAcceptsLiveWaitingReaders(t *testing.T) {
	p, ch := patientWith(t, "imu")
	path, seen := p.Dir.Path("imu"), filepath.Join(t.TempDir(), "seen")
	if err := os.WriteFile(seen, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	peer(t, path, "put", "0", "64", "1000000", "1")
	peer(t, path, "wait")
	peer(t, path, "follow", seen, "0", "3000") // waits repeatedly, each time for up to 3 ms
	await.True(t, "both wait", func() bool { s, err := ch.Stat(); return err == nil && s.Waiters == 2 })
	for range need.LongOr(2000, 50) {
		expect(t, checkChannels(t.Context(), p), fit, "")
	}
}

// For a stopped reader, /proc shows another system call than the one in which it waits.
func TestDoctorAcceptsStoppedWaitingReaders(t *testing.T) {
	p, ch := patientWith(t, "imu")
	for _, args := range [][]string{{"wait"}, {"get", "0", "w", "60000"}} {
		reader := peer(t, append([]string{p.Dir.Path("imu")}, args...)...)
		await.True(t, "the reader waits", func() bool { s, err := ch.Stat(); return err == nil && s.Waiters > 0 })
		time.Sleep(10 * time.Millisecond) // until the kernel has put it to sleep
		if err := reader.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		expect(t, checkChannels(t.Context(), p), fit, "")
		_ = reader.Process.Signal(syscall.SIGCONT)
	}
	expect(t, checkChannels(t.Context(), p), fit, "1 channels")
}
